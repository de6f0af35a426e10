"""The sparse indexes: which entries there are, and what they find."""

from collections.abc import Iterator
from random import Random

import pytest
from tests.log.given import (
    NOW,
    Machine,
    append,
    batch,
    batches_of,
    check_finding,
    check_indexes,
    entries_of,
    kafkas_indexes,
)

from ottla.log.index import NotInMemory
from ottla.log.segment import Segment
from ottla.record.batch import BatchHeader, parse_header


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def test_an_entry_is_made_when_more_than_the_interval_was_appended_since_the_last(machine: Machine) -> None:
    size = len(batch(2))
    log = machine.open(index_interval_bytes=2 * size)
    for n in range(8):
        append(log, batch(2, timestamp=NOW + n))
    # after two batches exactly the interval was appended, which is not more: the fourth batch gets the first entry
    assert entries_of(log.active) == ([(7, 3 * size), (13, 6 * size)], [(NOW + 3, 7), (NOW + 6, 13)])


def test_an_entry_has_the_batchs_last_offset_and_its_position(machine: Machine) -> None:
    log = machine.open(index_interval_bytes=0)
    append(log, batch(5))
    append(log, batch(3, size=50))
    append(log, batch(2))
    first, second, third = (found.position for found in batches_of(log.active))
    assert first == 0
    assert entries_of(log.active)[0] == [(7, second), (9, third)]


def test_time_entries_have_the_largest_timestamp_so_far_and_only_rise(machine: Machine) -> None:
    log = machine.open(index_interval_bytes=0)
    for timestamp in (50, 40, 60, 60, 30, 70):
        append(log, batch(timestamp=timestamp))
    assert entries_of(log.active)[1] == [(50, 0), (60, 2), (70, 5)]


def test_the_largest_timestamp_is_entered_when_the_segment_is_rolled(machine: Machine) -> None:
    log = machine.open()
    append(log, batch(timestamp=90))
    append(log, batch(timestamp=80))
    assert entries_of(log.active)[1] == []
    log.roll(NOW)
    assert entries_of(log.segments[0])[1] == [(90, 0)]


def test_and_when_the_log_is_stopped(machine: Machine) -> None:
    log = machine.open()
    append(log, batch(timestamp=90))
    append(log, batch(timestamp=80))
    log = machine.reopen(log)
    assert entries_of(log.active)[1] == [(90, 0)]
    assert log.active.max_timestamp == 90


def test_batches_without_timestamps_leave_the_time_index_empty(machine: Machine) -> None:
    log = machine.open(index_interval_bytes=0)
    for _ in range(3):
        append(log, batch(timestamp=-1))
    log.roll(NOW)
    assert entries_of(log.segments[0]) == ([(1, len(batch())), (2, 2 * len(batch()))], [])


@pytest.mark.parametrize("seed", range(6))
def test_entries_are_those_of_kafkas_rules(machine: Machine, seed: int) -> None:
    random = Random(seed)
    interval = random.choice((0, 100, 500, 4096))
    log = machine.open(index_interval_bytes=interval, segment_bytes=20_000)
    for _ in range(300):
        append(log, batch(random.randint(1, 5), size=random.randint(0, 200), timestamp=NOW + random.randint(0, 5000)))
    assert len(log.segments) > 3
    for segment in log.segments:
        finished = segment is not log.active
        assert entries_of(segment) == kafkas_indexes(segment, interval, finished=finished)
    check_finding(log)


@pytest.mark.parametrize("recovery_point", [0, 1, 150, 299, 450, 600])
def test_a_recovered_log_has_the_indexes_of_one_that_never_crashed(machine: Machine, recovery_point: int) -> None:
    random = Random(recovery_point)
    log = machine.open(index_interval_bytes=300, segment_bytes=20_000)
    for _ in range(300):
        append(log, batch(2, size=random.randint(0, 200), timestamp=NOW + random.randint(0, 5000)))
    machine.flush(log)  # index entries are on disk, so that recovery begins in the middle of a segment
    machine.host.crash()
    log = machine.open(clean=False, recovery_point=recovery_point, settings=log.config)
    for segment in log.segments[:-1]:
        assert entries_of(segment) == kafkas_indexes(segment, 300, finished=True)
    offsets, times = entries_of(log.active)
    kafkas_offsets, kafkas_times = kafkas_indexes(log.active, 300, finished=False)
    assert offsets == kafkas_offsets
    assert times in (kafkas_times, kafkas_indexes(log.active, 300, finished=True)[1])
    check_finding(log)
    check_indexes(log)


def test_files_hold_big_endian_entries_relative_to_the_base_offset(machine: Machine) -> None:
    log = machine.open(index_interval_bytes=0)
    append(log, batch(7))
    log.roll(NOW)
    append(log, batch(timestamp=NOW))
    append(log, batch(3, timestamp=NOW + 1))
    log.stop()
    stem = "/logs/orders-0/00000000000000000007"
    assert machine.read(f"{stem}.index").hex() == "00000003" + len(batch()).to_bytes(4, "big").hex()
    assert machine.read(f"{stem}.timeindex").hex() == (NOW + 1).to_bytes(8, "big").hex() + "00000003"


def test_an_append_never_waits_for_an_index_that_is_not_in_memory() -> None:
    """Else the batch would lie in the file while the log knows nothing of it, and the next would get its offset."""
    with Machine(cold_reads=1.0) as machine:
        log = machine.open(index_interval_bytes=0)
        for n in range(5):
            append(log, batch(timestamp=NOW + n))
        log = machine.reopen(log)
        for n in range(5, 10):
            assert append(log, batch(timestamp=NOW + n)) == n
        log.roll(NOW)
        assert [found.header.base_offset for found in batches_of(log.segments[0])] == list(range(10))


def test_a_lookup_that_would_have_to_wait_says_what_is_missing() -> None:
    with Machine(cold_reads=1.0) as machine:
        log = machine.open(index_interval_bytes=0)
        for _ in range(3):
            append(log, batch())
        with pytest.raises(NotInMemory) as missing:
            log.read(1, 1000, 3, at_least_one=True)
        assert missing.value.file.path == log.active.path
        assert missing.value.size > 0


def test_a_quiet_logs_files_are_closed_after_it_was_opened(machine: Machine) -> None:
    """A node has many more segments than it may have descriptors."""
    log = machine.open(segment_bytes=500)
    for _ in range(50):
        append(log, batch())
    for reopened in (machine.reopen(log), machine.after_crash(log)):
        for segment in reopened.segments:
            assert segment._file is None
            assert segment.offset_index.entries._file is None
            assert segment.time_index.entries._file is None


def test_rolled_segments_give_back_the_descriptors_of_their_indexes(machine: Machine) -> None:
    log = machine.open(segment_bytes=500, index_interval_bytes=0)
    for _ in range(50):
        machine.call(append, log, batch())
    machine.pass_time()
    for segment in log.segments[:-1]:
        assert segment.offset_index.entries._file is None
        assert segment.time_index.entries._file is None


def test_who_reads_on_from_an_offset_does_not_read_what_lies_before_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = machine.open(index_interval_bytes=200, segment_bytes=10_000)
    for n in range(300):
        append(log, batch(2, timestamp=NOW + n))
    looked_at: list[int] = []
    header_at = Segment.header_at

    def counted(self: Segment, position: int) -> BatchHeader | None:
        looked_at.append(position)
        return header_at(self, position)

    monkeypatch.setattr(Segment, "header_at", counted)
    for offset in (0, 1, 5, 300, 301, 597, 599, 600):
        looked_at.clear()
        found = [parse_header(data).base_offset for data in log.batches_from(offset)]
        assert found == list(range(offset // 2 * 2, 600, 2))
        assert len(looked_at) <= len(found) + len(log.segments)


def test_batches_are_found_although_the_index_is_not_in_memory(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = machine.open(index_interval_bytes=200)
    for n in range(50):
        append(log, batch(2, timestamp=NOW + n))
    monkeypatch.setattr(machine.host.disk, "cold_reads", 1.0)
    assert [parse_header(data).base_offset for data in log.batches_from(95)] == [94, 96, 98]
