"""How far a log may be cleaned, and when it is due: Kafka's rules as tables."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.log.cleaning.given import Tables, offsets
from tests.log.given import NOW, Machine

from ottla.log.cleaning.contract import Source
from ottla.log.cleaning.grouping import groups
from ottla.log.cleaning.planning import plan
from ottla.log.cleaning.transactions import CleanedTransactions, Marker
from ottla.log.txn_index import AbortedTxn

HOUR = 3_600_000


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def five_segments(machine: Machine, **overrides: Any) -> Tables:
    """Of two offsets each, from 0, 2, 4, 6 on, an hour apart, the last of them an hour old; the active one at 8."""
    tables = Tables(machine, segment_bytes=100_000, **overrides)
    for n in range(5):
        tables.put([(b"a", b"1"), (b"b", b"1")], timestamp=NOW - (4 - n) * HOUR)
        if n < 4:
            tables.roll()
    return tables


@pytest.mark.parametrize(
    ("cleaned", "stable", "overrides", "expected"),
    [
        (None, 10, {}, (0, 8)),
        (0, 10, {}, (0, 8)),
        (4, 10, {}, (4, 8)),
        (8, 10, {}, (8, 8)),
        (3, 10, {}, (3, 8)),  # where a full map ended
        (0, 7, {}, (0, 6)),  # a segment is cleaned as a whole or not at all
        (0, 6, {}, (0, 6)),
        (0, 1, {}, (0, 0)),
        (6, 3, {}, (6, 6)),
        (0, 10, {"min_compaction_lag_ms": HOUR // 2}, (0, 8)),
        (0, 10, {"min_compaction_lag_ms": 3 * HOUR // 2}, (0, 6)),
        (0, 10, {"min_compaction_lag_ms": 24 * HOUR}, (0, 0)),
        (4, 10, {"min_compaction_lag_ms": 24 * HOUR}, (4, 4)),
        (99, 10, {}, (0, 8)),  # beyond the end: the tail was lost
    ],
)  # fmt: skip
def test_cleanable_offsets(
    machine: Machine, cleaned: int | None, stable: int, overrides: dict[str, Any], expected: tuple[int, int]
) -> None:
    tables = five_segments(machine, **overrides)
    found = plan(tables.log, cleaned, stable, NOW)
    assert (found.first_dirty, found.bound) == expected
    assert found.corrects_checkpoint == (cleaned == 99)


def test_a_log_whose_start_has_passed_what_was_clean(machine: Machine) -> None:
    tables = five_segments(machine)
    machine.call(tables.log.advance_start, 4)
    found = plan(tables.log, 2, 10, NOW)
    assert (found.first_dirty, found.corrects_checkpoint) == (4, True)


@pytest.mark.parametrize(
    ("cleaned", "ratio", "lag", "due"),
    [
        (0, 0.5, None, True),
        (8, 0.0, None, False),
        (6, 0.5, None, False),
        (6, 0.2, None, True),
        (6, 0.25, None, False),  # more than that
        (6, 0.5, HOUR // 2, True),
        (6, 0.5, 2 * HOUR, False),
        (8, 0.5, 1, False),
    ],
)
def test_when_a_log_is_due(machine: Machine, cleaned: int, ratio: float, lag: int | None, due: bool) -> None:
    lags = {} if lag is None else {"max_compaction_lag_ms": lag}
    tables = five_segments(machine, min_cleanable_dirty_ratio=ratio, **lags)
    found = plan(tables.log, cleaned, 10, NOW)
    assert found.is_due(tables.config) is due
    if cleaned == 6:
        assert found.ratio == 0.25


def source(base: int, size: int, index: int = 8, time: int = 12) -> Source:
    return Source(base, size, index, time)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ([], []),
        ([source(0, 50)], [[0]]),
        ([source(0, 50), source(10, 50), source(20, 1)], [[0, 10], [20]]),
        ([source(0, 200), source(10, 50), source(20, 50)], [[0], [10, 20]]),
        ([source(0, 1, index=70), source(10, 1, index=40)], [[0], [10]]),
        ([source(0, 1, time=70), source(10, 1, time=40)], [[0], [10]]),
        ([source(0, 1), source(2**31 - 10, 1), source(2**31, 1)], [[0, 2**31 - 10], [2**31]]),
        ([source(0, 1), source(10, 0), source(2**31 + 5, 1)], [[0, 10], [2**31 + 5]]),
    ],
)  # fmt: skip
def test_groups(sources: list[Source], expected: list[list[int]]) -> None:
    bound = sources[-1].base_offset + 5 if sources else 0
    assert [[s.base_offset for s in group] for group in groups(sources, bound, 100, 100)] == expected


def test_an_aborted_transaction_is_told_from_its_first_offset_to_its_marker() -> None:
    transactions = CleanedTransactions([AbortedTxn(7, 10, 20, 5), AbortedTxn(8, 12, 14, 5)])
    assert not transactions.on_data(7, 9, True)
    assert transactions.on_data(7, 10, True)
    assert not transactions.on_data(7, 11, False)
    assert transactions.on_data(8, 13, True)
    assert not transactions.on_marker(8, 14, Marker.ABORT)
    assert not transactions.on_data(8, 15, True)
    assert not transactions.on_marker(7, 20, Marker.ABORT)
    assert not transactions.on_data(7, 21, True)
    assert [txn.producer_id for txn in transactions.kept] == [8, 7]


@pytest.mark.parametrize(
    ("met", "marker", "may_go"),
    [
        (True, Marker.COMMIT, False),
        (False, Marker.COMMIT, True),
        (True, Marker.ABORT, True),  # of another transaction than the one that was met
        (False, Marker.OTHER, False),
        (False, Marker.EMPTIED, True),
    ],
)
def test_when_a_marker_has_nothing_left_to_say(met: bool, marker: Marker, may_go: bool) -> None:
    transactions = CleanedTransactions([])
    if met:
        transactions.on_data(7, 1, True)
    assert transactions.on_marker(7, 2, marker) is may_go


def test_records_without_a_time_are_as_young_as_their_file(machine: Machine) -> None:
    """min.compaction.lag.ms"""
    tables = Tables(machine, min_compaction_lag_ms=HOUR, segment_bytes=100_000)
    tables.put([(b"a", b"1"), (b"a", b"2")], timestamp=-3)
    tables.compact()
    assert tables.log.segments[0].max_timestamp < 0
    assert offsets(tables.log) == [0, 1]
    machine.pass_time(HOUR / 1000)
    tables.clean()
    assert offsets(tables.log) == [1]
