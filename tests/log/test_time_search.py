"""Offsets by time."""

from collections.abc import Iterator
from random import Random

import pytest
from tests.log.given import NOW, Machine, all_batches, append, batch

from ottla.log.index import NotInMemory
from ottla.log.partition_log import PartitionLog
from ottla.log.time_search import BatchAt, FoundRecord, batch_at_or_after, latest_timestamp, record_at_or_after
from ottla.record.batch import Codec, with_log_append_time
from ottla.record.reader import read_records


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine(cold_reads=0.2) as machine:
        yield machine


def find_batch(log: PartitionLog, timestamp: int, from_offset: int) -> BatchAt | None:
    while True:
        try:
            return batch_at_or_after(log, timestamp, from_offset)
        except NotInMemory:
            continue


def find(log: PartitionLog, timestamp: int, from_offset: int = 0) -> FoundRecord | None:
    """As ListOffsets does it: batch by batch, until one has the record."""
    while (at := find_batch(log, timestamp, from_offset)) is not None:
        found = record_at_or_after(at.file.pread(at.size, at.position), timestamp, from_offset)
        if found is not None:
            return found
        from_offset = at.last_offset + 1
    return None


def by_walking(log: PartitionLog, timestamp: int, from_offset: int) -> tuple[int, int] | None:
    for found in all_batches(log):
        for record in read_records(found.data):
            if record.timestamp >= timestamp and record.offset >= from_offset:
                return record.offset, record.timestamp
    return None


@pytest.mark.parametrize("seed", range(8))
def test_the_first_record_at_or_after_a_time(seed: int) -> None:
    random = Random(seed)
    with Machine(seed, cold_reads=0.1) as machine:
        log = machine.open(segment_bytes=2000, index_interval_bytes=random.choice((0, 200, 4096)))
        for n in range(80):
            timestamp = NOW + 10 * n + random.randint(-100, 100)
            append(log, batch(random.randint(1, 4), timestamp=timestamp, step=random.randint(-3, 5)))
        for _ in range(150):
            timestamp, start = NOW + random.randint(-150, 950), random.randint(0, log.end_offset)
            found = find(log, timestamp, start)
            assert (found[:2] if found else None) == by_walking(log, timestamp, start)


def test_in_a_batch_of_each_codec(machine: Machine) -> None:
    log = machine.open()
    for number, codec in enumerate(Codec):
        append(log, batch(10, timestamp=NOW + 100 * number, step=10, codec=codec))
    for number in range(len(Codec)):
        found = find(log, NOW + 100 * number + 41)
        assert found == FoundRecord(10 * number + 5, NOW + 100 * number + 50, 0)


def test_says_the_leader_epoch_of_the_record(machine: Machine) -> None:
    log = machine.open()
    append(log, batch(timestamp=NOW), epoch=3)
    append(log, batch(timestamp=NOW + 1), epoch=5)
    assert find(log, NOW) == FoundRecord(0, NOW, 3)
    assert find(log, NOW + 1) == FoundRecord(1, NOW + 1, 5)


def test_nothing_is_as_late_as_that(machine: Machine) -> None:
    log = machine.open()
    assert find(log, 0) is None
    append(log, batch(timestamp=NOW))
    assert find(log, NOW + 1) is None


def test_records_before_the_start_do_not_count(machine: Machine) -> None:
    log = machine.open(segment_bytes=400)
    append(log, batch(4, timestamp=NOW + 100))
    for n in range(8):
        append(log, batch(timestamp=NOW + n))
    log.advance_start(2)
    assert find(log, NOW + 50, log.start_offset) == FoundRecord(2, NOW + 100, 0)
    log.advance_start(5)
    assert find(log, NOW + 50, log.start_offset) is None
    assert find(log, NOW + 3, log.start_offset) == FoundRecord(7, NOW + 3, 0)


def test_with_append_time_all_records_of_a_batch_have_its_time(machine: Machine) -> None:
    log = machine.open()
    append(log, bytes(with_log_append_time(batch(5, timestamp=12, step=1), NOW)))
    assert find(log, NOW) == FoundRecord(0, NOW, 0)
    assert find(log, 14) == FoundRecord(0, NOW, 0)
    assert find(log, NOW, 3) == FoundRecord(3, NOW, 0)


def test_the_largest_timestamp(machine: Machine) -> None:
    log = machine.open(segment_bytes=300)
    assert latest_timestamp(log) == -1
    for timestamp in (NOW, NOW + 70, NOW + 30, NOW + 70, NOW + 10):
        append(log, batch(timestamp=timestamp))
    assert latest_timestamp(log) == NOW + 70
    assert find(log, NOW + 70) == FoundRecord(1, NOW + 70, 0)


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_after_a_restart(machine: Machine, how: str) -> None:
    log = machine.open(segment_bytes=1000)
    for n in range(50):
        append(log, batch(timestamp=NOW + (n * 7) % 50))
    log = machine.reopen(log) if how == "stop" else machine.after_crash(log)
    for timestamp in range(NOW - 1, NOW + 52):
        found = find(log, timestamp)
        assert (found[:2] if found else None) == by_walking(log, timestamp, 0)
