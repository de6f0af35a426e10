"""When a log starts a new segment."""

from collections.abc import Iterator

import pytest
from tests.log.given import FOLDER, NOW, Machine, append, batch, config

from ottla.log.index import MAX_RELATIVE_OFFSET
from ottla.log.partition_log import PartitionLog
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_a_segment_is_filled_to_the_byte_and_no_further(machine: Machine) -> None:
    size = len(batch())
    log = machine.open(segment_bytes=3 * size)
    for _ in range(7):
        append(log, batch())
    assert bases(log) == [0, 3, 6]
    assert [segment.size for segment in log.segments] == [3 * size, 3 * size, size]


def test_a_batch_that_would_pass_the_limit_begins_the_next_segment(machine: Machine) -> None:
    log = machine.open(segment_bytes=3 * len(batch()) - 1)
    for _ in range(3):
        append(log, batch())
    assert bases(log) == [0, 2]


def test_a_batch_larger_than_a_segment_gets_one_of_its_own(machine: Machine) -> None:
    log = machine.open(segment_bytes=100)
    append(log, batch(size=500))
    append(log, batch(size=500))
    append(log, batch())
    assert bases(log) == [0, 1, 2]


def test_rolling_an_empty_segment_changes_nothing(machine: Machine) -> None:
    log = machine.open()
    log.roll(NOW)
    assert bases(log) == [0]
    append(log, batch())
    log.roll(NOW)
    log.roll(NOW)
    assert bases(log) == [0, 1]


class TestTime:
    def test_counts_from_the_first_batch_by_the_records_own_timestamps(self, machine: Machine) -> None:
        log = machine.open(segment_ms=1000)
        append(log, batch(timestamp=NOW))
        append(log, batch(timestamp=NOW + 1000), now_ms=NOW + 10**9)  # the clock has nothing to say
        assert bases(log) == [0]
        append(log, batch(timestamp=NOW + 1001))
        assert bases(log) == [0, 2]

    def test_the_largest_timestamp_of_the_first_batch_counts(self, machine: Machine) -> None:
        log = machine.open(segment_ms=1000)
        append(log, batch(3, timestamp=NOW, step=500))
        append(log, batch(timestamp=NOW + 2000))
        assert bases(log) == [0]
        append(log, batch(timestamp=NOW + 2001))
        assert bases(log) == [0, 4]

    def test_older_records_never_roll(self, machine: Machine) -> None:
        log = machine.open(segment_ms=1000)
        append(log, batch(timestamp=NOW))
        append(log, batch(timestamp=5))
        assert bases(log) == [0]

    def test_without_timestamps_the_clock_counts_from_the_segments_creation(self, machine: Machine) -> None:
        log = machine.open(segment_ms=1000)
        append(log, batch(timestamp=-1), now_ms=NOW)
        append(log, batch(timestamp=-1), now_ms=NOW + 1000)
        assert bases(log) == [0]
        append(log, batch(timestamp=-1), now_ms=NOW + 1001)
        assert bases(log) == [0, 2]

    def test_goes_on_counting_from_the_first_batch_after_a_restart(self, machine: Machine) -> None:
        log = machine.open(segment_ms=1000)
        append(log, batch(timestamp=NOW))
        log = machine.reopen(log)
        append(log, batch(timestamp=NOW + 1001))
        assert bases(log) == [0, 1]

    def test_an_empty_segment_does_not_roll_however_old(self, machine: Machine) -> None:
        log = machine.open(segment_ms=1000)
        append(log, batch(timestamp=-1), now_ms=NOW + 10**9)
        assert bases(log) == [0]

    def test_a_compacted_topic_rolls_in_time_for_its_compaction(self, machine: Machine) -> None:
        log = machine.open(segment_ms=10_000, max_compaction_lag_ms=1000, cleanup_policy="compact")
        append(log, batch(timestamp=NOW))
        append(log, batch(timestamp=NOW + 1001))
        assert bases(log) == [0, 1]

    def test_a_changed_config_is_obeyed(self, machine: Machine) -> None:
        log = machine.open(segment_ms=10_000)
        append(log, batch(timestamp=NOW))
        log.configure(config(segment_ms=1000))
        append(log, batch(timestamp=NOW + 1001))
        assert bases(log) == [0, 1]

    def test_jitter_makes_segments_roll_earlier_by_less_than_it_says(self, machine: Machine) -> None:
        log = machine.open(segment_ms=10_000, segment_jitter_ms=5000)
        jitters = set()
        for n in range(20):
            append(log, batch(timestamp=NOW))
            jitter = log.active.roll_jitter_ms
            jitters.add(jitter)
            append(log, batch(timestamp=NOW + 10_000 - jitter))
            assert len(log.segments) == n + 1
            log.roll(NOW)
        assert len(jitters) > 10
        assert max(jitters) < 5000
        append(log, batch(timestamp=NOW))
        append(log, batch(timestamp=NOW + 10_001 - log.active.roll_jitter_ms))
        assert len(log.segments) == 22

    def test_the_segment_that_a_restart_goes_on_with_has_jitter_too(self, machine: Machine) -> None:
        log = machine.open(segment_ms=10_000, segment_jitter_ms=5000)
        append(log, batch())
        seen = set()
        for _ in range(5):
            log = machine.reopen(log)
            seen.add(log.active.roll_jitter_ms)
        assert len(seen) > 1


class TestIndexFull:
    def test_a_full_offset_index_rolls(self, machine: Machine) -> None:
        # each batch but the first gets an entry; five entries fill it
        log = machine.open(segment_index_bytes=5 * 8, index_interval_bytes=0)
        for _ in range(7):
            append(log, batch(timestamp=-1))
        assert bases(log) == [0, 6]
        assert log.segments[0].offset_index.entries.count == 5

    def test_a_time_index_rolls_one_entry_earlier_to_have_room_for_the_last(self, machine: Machine) -> None:
        log = machine.open(segment_index_bytes=4 * 12, index_interval_bytes=0)
        for n in range(6):
            append(log, batch(timestamp=NOW + n))
        assert bases(log) == [0, 4]
        assert log.segments[0].time_index.entries.count == 3

    def test_a_full_index_is_seen_after_a_restart(self, machine: Machine) -> None:
        log = machine.open(segment_index_bytes=5 * 8, index_interval_bytes=0)
        for _ in range(6):
            append(log, batch(timestamp=-1))
        log = machine.reopen(log)
        append(log, batch(timestamp=-1))
        assert bases(log) == [0, 6]


class TestRelativeOffsets:
    def put(self, log: PartitionLog, base_offset: int) -> None:
        data = build_batch([Record(None, b"v", NOW)], base_offset=base_offset, leader_epoch=0)
        log.append_as_is(data, (parse_header(data),), NOW)

    def test_an_offset_that_an_index_cannot_say_begins_a_new_segment(self, machine: Machine) -> None:
        log = machine.open(index_interval_bytes=0)
        self.put(log, 0)
        self.put(log, MAX_RELATIVE_OFFSET)
        assert bases(log) == [0]
        self.put(log, MAX_RELATIVE_OFFSET + 1)
        assert bases(log) == [0, MAX_RELATIVE_OFFSET + 1]
        assert log.end_offset == MAX_RELATIVE_OFFSET + 2

    def test_also_when_the_log_is_still_empty(self, machine: Machine) -> None:
        """A follower of a compacted topic begins anywhere."""
        log = machine.open(index_interval_bytes=0)
        self.put(log, 10**12)
        assert log.active.base_offset == 10**12
        found = log.read(10**12, 1000, log.end_offset, at_least_one=True)
        assert found is not None
        assert found.file.path == log.active.path
        log = machine.reopen(log)
        assert log.end_offset == 10**12 + 1


class TestFiles:
    def test_a_preallocated_segment_ends_with_its_last_batch_once_it_is_rolled(self, machine: Machine) -> None:
        log = machine.open(segment_bytes=10_000, preallocate="true")
        append(log, batch())
        assert machine.disk.file_size(log.active.path) == 10_000
        log.roll(NOW)
        assert machine.disk.file_size(log.segments[0].path) == len(batch())

    @pytest.mark.parametrize("how", ["crash", "power loss", "stop"])
    def test_a_preallocated_segment_is_read_back(self, machine: Machine, how: str) -> None:
        log = machine.open(segment_bytes=1000, preallocate="true")
        for _ in range(15):
            append(log, batch())
        machine.flush(log)
        reopen = {"crash": machine.after_crash, "power loss": machine.after_power_loss, "stop": machine.reopen}[how]
        log = reopen(log)
        assert log.end_offset == 15
        assert append(log, batch()) == 15

    def test_the_files_of_a_segment_are_named_as_kafkas(self, machine: Machine) -> None:
        log = machine.open()
        append(log, batch(3))
        log.roll(NOW)
        assert [name for name in machine.names() if "3" in name] == [
            "00000000000000000003.index",
            "00000000000000000003.log",
            "00000000000000000003.snapshot",
            "00000000000000000003.timeindex",
        ]
        assert machine.disk.exists(f"{FOLDER}/leader-epoch-checkpoint")
