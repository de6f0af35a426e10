"""Configs of groups and committed offsets: with another value, something else happens."""

from __future__ import annotations

import time
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from tests.broker.apis.altering import TOPIC, described
from tests.broker.apis.asking import JOIN_GROUP, ask, create, metadata, topic_to_create
from tests.broker.apis.committing import await_coordinator, commit
from tests.waiting import at_best

from ottla.model.errors import ErrorCode
from ottla.testing.node import running_node

FEW = {"offsets_topic_num_partitions": 1}


def join(address: str, session_ms: int, version: int = 4, group: str = "group") -> ErrorCode:
    answer = ask(
        address, JOIN_GROUP, version, group_id=group, session_timeout=timedelta(milliseconds=session_ms),
        rebalance_timeout=timedelta(seconds=60), member_id="", protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )  # fmt: skip
    code: ErrorCode = answer.error_code
    return code


@pytest.mark.parametrize(
    ("settings", "session_ms", "is_taken"),
    [
        ({}, 10_000, True),
        ({"group_min_session_timeout_ms": 10_001}, 10_000, False),
        ({"group_max_session_timeout_ms": 9999}, 10_000, False),
        ({}, 1000, False),
        ({"group_min_session_timeout_ms": 1000}, 1000, True),
        ({}, 1_800_001, False),
        ({"group_max_session_timeout_ms": 1_800_001}, 1_800_001, True),
    ],
)
def test_sessions_are_as_long_as_the_broker_allows(
    tmp_path: Path, settings: dict[str, int], session_ms: int, is_taken: bool
) -> None:
    with running_node(tmp_path, **FEW, **settings) as node:
        await_coordinator(node.address)
        code = join(node.address, session_ms)

    assert code is (ErrorCode.member_id_required if is_taken else ErrorCode.invalid_session_timeout)


@pytest.mark.parametrize("delay_ms", [0, 700])
def test_the_first_member_waits_for_others(tmp_path: Path, delay_ms: int) -> None:
    with running_node(tmp_path, **FEW, group_initial_rebalance_delay_ms=delay_ms) as node:
        await_coordinator(node.address)
        groups = count()

        def waits_s() -> float:
            begun = time.monotonic()
            code = join(node.address, 10_000, 3, f"group-{next(groups)}")  # an older one, which is let in at once
            assert code is ErrorCode.none
            return time.monotonic() - begun

        if delay_ms:
            assert waits_s() >= 0.7
        else:
            assert at_best(waits_s, below=0.7) < 0.7


@pytest.mark.parametrize(("limit", "code"), [(4096, ErrorCode.none), (9, ErrorCode.offset_metadata_too_large)])
def test_offset_metadata_max_bytes_bounds_what_is_kept_with_an_offset(
    tmp_path: Path, limit: int, code: ErrorCode
) -> None:
    with running_node(tmp_path, **FEW, offset_metadata_max_bytes=limit) as node:
        create(node.address, topic_to_create("t"))
        await_coordinator(node.address)

        assert commit(node.address, "group", {"t": {0: 5}}, metadata="0123456789") == {"t": {0: code}}


@pytest.mark.parametrize(("partitions", "segment_bytes"), [(1, 1 << 20), (3, 5_000_000)])
def test_the_offsets_topic_is_made_as_the_configs_say(tmp_path: Path, partitions: int, segment_bytes: int) -> None:
    settings = {"offsets_topic_num_partitions": partitions, "offsets_topic_segment_bytes": segment_bytes}
    with running_node(tmp_path, **settings) as node:
        await_coordinator(node.address)
        (topic,) = metadata(node.address, "__consumer_offsets").topics
        own = described(node.address, TOPIC, "__consumer_offsets", "segment.bytes")["segment.bytes"]
        in_use = node.on_loop(lambda: node.node.replicas.by_name["__consumer_offsets", 0].log.config.segment_bytes)

    assert len(topic.partitions) == partitions
    assert (own.value, in_use) == (str(segment_bytes), segment_bytes)


@pytest.mark.parametrize(("settings", "expected"), [({}, 5000), ({"offsets_commit_timeout_ms": 777}, 777)])
def test_offsets_commit_timeout_ms_is_how_long_a_reply_waits_for_its_commit(
    tmp_path: Path, settings: dict[str, int], expected: int
) -> None:
    """What happens then is shown in tests/coordinator/test_shard.py."""
    with running_node(tmp_path, **FEW, **settings) as node:
        await_coordinator(node.address)
        waits = node.on_loop(
            lambda: [shard._reply_within_ms for shard in node.node.groups.runtime.active]
        )  # fmt: skip

    assert waits == [expected]
