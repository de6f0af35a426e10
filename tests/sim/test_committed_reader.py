"""Simulated readers of committed records: when they may say that no half of a transaction is still to come."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ottla.sim.cluster.transactions.reader import CommittedReader


def rows(*offsets: tuple[int, int, int]) -> list[Any]:
    """Each: the reader's position, the last stable offset and the high watermark of an answer without records."""
    return [
        (position, SimpleNamespace(
            partition_index=0, last_stable_offset=stable, high_watermark=end, aborted_transactions=(), records=b"",
        ))
        for position, stable, end in offsets
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "is_stable"),
    [
        pytest.param(rows((4, 4, 4)), True, id="all has been read"),
        pytest.param(rows((4, 4, 6)), False, id="a transaction is open"),
        pytest.param(rows((3, 4, 4)), False, id="some is still to be read"),
        pytest.param(rows((4, 4, 6), (4, 3, 3)), False, id="the new leader is behind the reader"),
        pytest.param(rows((4, 4, 6), (4, 4, 4)), False, id="the new leader is where the open transaction began"),
        pytest.param(rows((4, 4, 6), (4, 3, 3), (6, 6, 6)), True, id="the new leader has caught up"),
    ],
)
def test_an_account_is_stable(answers: list[Any], is_stable: bool) -> None:
    oracle = SimpleNamespace(counts=Counter[str](), complain=pytest.fail)
    client: Any = SimpleNamespace(oracle=oracle, name="reader")
    topic: Any = SimpleNamespace(id=UUID(int=1), name="accounts", partitions=1)
    told: list[int] = []
    reader = CommittedReader(client, topic, lambda *_: None, told.append, max_bytes=1000)
    for position, row in answers:
        told.clear()
        reader.positions[0] = position
        reader._read(row)
    assert told == ([0] if is_stable else [])
