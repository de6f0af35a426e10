"""A log that is cut at its end goes on as if what was there had never been."""

from __future__ import annotations

import pytest
from tests.log.given import (
    FOLDER,
    Machine,
    append,
    batch,
    check_finding,
    check_indexes,
    everything,
    marker,
    producer_state,
    replayed,
)

from ottla.log.epochs import EpochStart
from ottla.log.fetched_batches import CorruptFetch, UnexpectedOffset, fetched_batches
from ottla.log.partition_log import PartitionLog
from ottla.log.truncation import truncate_fully_and_start_at, truncate_to
from ottla.record.batch import parse_header


def at(data: bytes, base: int, epoch: int = 0) -> bytes:
    return base.to_bytes(8, "big") + data[8:12] + epoch.to_bytes(4, "big") + data[16:]


def filled(machine: Machine) -> PartitionLog:
    """Epochs 0, 1 and 2 from 0, 10 and 20 on; two records a batch, ends at 30."""
    log = machine.open(segment_bytes=400, index_interval_bytes=100)
    for number in range(15):
        machine.call(
            append, log, batch(2, timestamp=number * 10, producer_id=7, sequence=number * 2), epoch=number // 5
        )
    return log


@pytest.mark.parametrize("offset", range(31))
def test_nothing_is_left_of_what_was_cut_off(offset: int) -> None:
    with Machine() as machine:
        log = filled(machine)
        kept = [data for data in everything(log) if parse_header(data).last_offset < offset]

        machine.call(truncate_to, machine.env, log, offset)

        end = len(kept) * 2
        assert (log.end_offset, everything(log)) == (end, kept)
        assert log.epochs.starts == [
            start for start in (EpochStart(0, 0), EpochStart(1, 10), EpochStart(2, 20)) if start[1] < end
        ]
        assert log.segments[-1].base_offset <= end
        check_indexes(log)
        check_finding(log)
        assert producer_state(log.producers) == producer_state(replayed(log))
        assert all(int(name[:20]) <= end for name in machine.names() if name.endswith(".snapshot"))
        again = machine.after_crash(log)
        assert (again.end_offset, again.epochs.starts, everything(again)) == (end, log.epochs.starts, kept)


def test_transactions_that_ended_behind_the_cut_are_open_again() -> None:
    with Machine() as machine:
        log = machine.open()
        machine.call(append, log, batch(2, producer_id=8, transactional=True))
        machine.call(append, log, marker(8, commit=False))
        assert log.aborted_between(0, 3) != []

        machine.call(truncate_to, machine.env, log, 2)

        assert log.aborted_between(0, 3) == []
        assert log.producers.first_unstable_offset() == 0
        assert log.producers.entries[8].txn_first_offset == 0


def test_a_flush_that_was_under_way_tells_of_nothing_that_was_cut_off() -> None:
    with Machine() as machine:
        log = filled(machine)
        told: list[int] = []
        log.on_flushed = told.append
        machine.call(log.flush)
        machine.call(truncate_to, machine.env, log, 12)
        machine.pass_time()
        assert (max(told), log.flushed_offset) == (12, 12)


@pytest.mark.parametrize("offset", [0, 3, 12, 30, 100])
def test_a_log_starts_anew_anywhere(offset: int) -> None:
    with Machine() as machine:
        log = filled(machine)

        machine.call(truncate_fully_and_start_at, machine.env, log, offset)

        assert (log.start_offset, log.end_offset, log.flushed_offset) == (offset, offset, offset)
        assert (everything(log), log.epochs.starts, log.producers.entries) == ([], [], {})
        machine.call(append, log, batch(3), epoch=9)
        again = machine.after_crash(log)
        assert (again.start_offset, again.end_offset) == (offset, offset + 3)
        assert machine.disk.exists(f"{FOLDER}/{offset:020}.log")


class TestWhatIsFetched:
    good = at(batch(2), 10, 3), at(batch(1), 12, 3), at(batch(2), 15, 4)  # a gap that compaction left

    def test_whole_batches_of_known_epochs_are_taken(self) -> None:
        records = b"".join(self.good) + self.good[0][:50]
        assert [header.base_offset for header in fetched_batches(records, 10, 4)] == [10, 12, 15]
        assert [header.base_offset for header in fetched_batches(records, 10, 3)] == [10, 12]
        assert fetched_batches(records[:60], 10, 4) == []

    @pytest.mark.parametrize(
        ("records", "error"),
        [
            (good[0][:16] + b"\x01" + good[0][17:], CorruptFetch),
            (good[0][:-1] + b"?", CorruptFetch),
            (good[0][:8] + bytes(4) + good[0][12:], CorruptFetch),
            (at(batch(2), 9, 3), UnexpectedOffset),
            (good[0] + good[0], UnexpectedOffset),
        ],
        ids=["magic", "checksum", "length", "below the end", "twice"],
    )
    def test_what_cannot_follow_is_refused(self, records: bytes, error: type[Exception]) -> None:
        with pytest.raises(error):
            fetched_batches(records, 10, 3)


@pytest.mark.parametrize("offset", [30, 31, 100])
def test_a_cut_that_finds_nothing_to_cut_keeps_no_later_flush_from_being_believed(offset: int) -> None:
    with Machine() as machine:
        log = filled(machine)
        machine.call(log.doubt_from, offset)
        machine.call(truncate_to, machine.env, log, offset)
        machine.call(append, log, batch(2, timestamp=200, producer_id=7, sequence=30), epoch=2)

        machine.flush(log)

        assert log.flushed_offset == 32


def test_what_comes_instead_of_something_in_the_remote_tier_is_not_there() -> None:
    with Machine() as machine:
        log = filled(machine)
        log.tiered_to = 27
        machine.call(truncate_to, machine.env, log, 30)
        assert log.tiered_to == 27
        machine.call(truncate_to, machine.env, log, 20)
        assert log.tiered_to == 19
        machine.call(truncate_fully_and_start_at, machine.env, log, 4)
        assert log.tiered_to == 3
        machine.call(truncate_fully_and_start_at, machine.env, log, 50)
        assert log.tiered_to == 3
