"""What goes, by age, by size, or because it lies before the log's start; and what never does."""

from collections.abc import Iterator
from typing import ClassVar

import pytest
from tests.log.given import FOLDER, NOW, PARTITION, TOPIC_ID, Machine, append, batch, config, everything

from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import BeforeLocalStart, OffsetOutOfRange
from ottla.log.retention import deletable_segments, delete_oldest, give_up_old_segments
from ottla.sim.world import START_MS

SIZE = len(batch())
FOREVER = 2**60


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def log_of(machine: Machine, segments: int, **overrides: object) -> PartitionLog:
    """So many segments of one batch each; their timestamps are NOW, NOW + 10, ..."""
    log = machine.open(settings=config(**{"segment_bytes": SIZE, "retention_ms": -1, **overrides}))
    for n in range(segments):
        append(log, batch(timestamp=NOW + 10 * n))
    return log


class TestBySize:
    def test_segments_go_while_the_rest_is_still_as_large_as_retention_bytes(self, machine: Machine) -> None:
        log = log_of(machine, 5)
        for retained, goes in ((-1, 0), (5 * SIZE, 0), (4 * SIZE + 1, 0), (4 * SIZE, 1), (3 * SIZE, 2), (0, 5)):
            log.configure(config(segment_bytes=SIZE, retention_ms=-1, retention_bytes=retained))
            assert deletable_segments(log, 5, NOW) == goes, retained

    def test_not_with_the_compact_policy_alone(self, machine: Machine) -> None:
        log = log_of(machine, 5, retention_bytes=0, cleanup_policy="compact")
        assert deletable_segments(log, 5, NOW) == 0


class TestByTime:
    def test_a_segment_goes_when_its_newest_record_is_older_than_retention_ms(self, machine: Machine) -> None:
        log = log_of(machine, 3, retention_ms=1000)
        assert deletable_segments(log, 3, NOW + 1000) == 0
        assert deletable_segments(log, 3, NOW + 1001) == 1
        assert deletable_segments(log, 3, NOW + 1011) == 2
        assert deletable_segments(log, 3, NOW + 1021) == 3  # the active one too

    def test_a_young_segment_protects_older_ones_behind_it(self, machine: Machine) -> None:
        log = machine.open(segment_bytes=SIZE, retention_ms=1000)
        for timestamp in (NOW, NOW + 5000, NOW):
            append(log, batch(timestamp=timestamp))
        assert deletable_segments(log, 3, NOW + 1001) == 1

    def test_a_record_of_the_future_keeps_its_segment_and_is_told(
        self, machine: Machine, caplog: pytest.LogCaptureFixture
    ) -> None:
        """As Kafka has it: clocks that went wrong cost space, not records."""
        log = machine.open(segment_bytes=SIZE, retention_ms=1000)
        for timestamp in (NOW + 86_400_000, NOW, NOW):
            append(log, batch(timestamp=timestamp))
        for _ in range(2):
            assert not machine.call(give_up_old_segments, log, 3, NOW + 5000)
        assert caplog.text.count("in the future") == 1
        assert deletable_segments(log, 3, NOW + 86_401_000) == 0
        assert deletable_segments(log, 3, NOW + 86_401_001) == 3
        log.configure(config(segment_bytes=SIZE, retention_ms=1000, retention_bytes=2 * SIZE))
        assert deletable_segments(log, 3, NOW) == 1, "by size it goes"

    def test_without_timestamps_the_files_own_age_counts_also_after_a_restart(self, machine: Machine) -> None:
        log = machine.open(segment_bytes=SIZE, retention_ms=1000)
        append(log, batch(timestamp=-1))
        append(log, batch(timestamp=-1))
        machine.pass_time(10)
        log = machine.reopen(log)
        written = machine.disk.modified_ms(log.segments[0].path)
        assert deletable_segments(log, 2, written + 1000) == 0
        assert deletable_segments(log, 2, written + 1001) >= 1

    def test_the_largest_timestamp_is_known_after_a_crash(self, machine: Machine) -> None:
        log = machine.open(segment_bytes=2 * SIZE, retention_ms=1000)
        for timestamp in (NOW + 50, NOW, NOW + 20, NOW):
            append(log, batch(timestamp=timestamp))
        log = machine.after_crash(log)
        assert [segment.max_timestamp for segment in log.segments] == [NOW + 50, NOW + 20]


class TestBeforeTheStart:
    def test_segments_wholly_before_the_start_go_whatever_the_policy(self, machine: Machine) -> None:
        log = log_of(machine, 5, cleanup_policy="compact")
        log.advance_start(3)
        assert deletable_segments(log, 5, NOW) == 3

    def test_one_that_the_start_lies_in_stays(self, machine: Machine) -> None:
        log = machine.open(segment_bytes=3 * SIZE, retention_ms=-1)
        for _ in range(7):
            append(log, batch())
        log.advance_start(5)
        assert deletable_segments(log, 7, NOW) == 1

    def test_the_active_segment_stays(self, machine: Machine) -> None:
        log = log_of(machine, 2)
        log.advance_start(2)
        assert deletable_segments(log, 2, NOW) == 1

    def test_reads_before_the_start_are_out_of_range(self, machine: Machine) -> None:
        log = log_of(machine, 3)
        log.advance_start(2)
        with pytest.raises(OffsetOutOfRange):
            log.read(1, 100, 3, at_least_one=True)
        assert log.read(2, 100, 3, at_least_one=True) is not None

    def test_the_start_never_goes_back(self, machine: Machine) -> None:
        log = log_of(machine, 3)
        log.advance_start(2)
        log.advance_start(1)
        assert log.start_offset == 2


def test_nothing_beyond_the_high_watermark_goes(machine: Machine) -> None:
    log = log_of(machine, 5, retention_bytes=0)
    for high_watermark in range(6):
        assert deletable_segments(log, high_watermark, NOW) == high_watermark


def test_an_empty_log_has_nothing_to_give_up(machine: Machine) -> None:
    log = machine.open(retention_bytes=0, retention_ms=0)
    assert deletable_segments(log, 0, NOW + FOREVER) == 0


class TestManager:
    KNOWN: ClassVar = {
        PARTITION: (TOPIC_ID, config(segment_bytes=SIZE, retention_bytes=2 * SIZE, file_delete_delay_ms=60_000))
    }

    def manager(self, machine: Machine, segments: int = 5) -> tuple[LogManager, PartitionLog]:
        manager = machine.manager(self.KNOWN)
        log = machine.call(manager.get_or_create, PARTITION, *self.KNOWN[PARTITION])
        for n in range(segments):
            machine.call(append, log, batch(timestamp=START_MS + n))
        return manager, log

    def test_the_start_moves_to_the_first_segment_that_is_left(self, machine: Machine) -> None:
        manager, log = self.manager(machine)
        machine.wait_for(manager.enforce_retention)
        assert log.start_offset == 3
        assert [segment.base_offset for segment in log.segments] == [3, 4]
        assert len(everything(log)) == 2

    def test_files_are_renamed_at_once_and_removed_after_the_delay(self, machine: Machine) -> None:
        manager, _ = self.manager(machine)
        machine.wait_for(manager.enforce_retention)
        deleted = [name for name in machine.names() if name.endswith(".deleted")]
        stems = {name.partition(".")[0] for name in deleted}
        assert stems == {f"{n:020d}" for n in range(3)}
        assert not [name for name in machine.names() if name.partition(".")[0] in stems and name not in deleted]
        machine.pass_time(59)
        assert [name for name in machine.names() if name.endswith(".deleted")] == deleted
        machine.pass_time(2)
        assert not [name for name in machine.names() if name.endswith(".deleted")]

    def test_a_reader_that_holds_a_deleted_segment_goes_on(self, machine: Machine) -> None:
        manager, log = self.manager(machine)
        found = log.read(0, 1000, 5, at_least_one=True)
        assert found is not None
        before = found.file.pread(found.size, found.position)
        machine.wait_for(manager.enforce_retention)
        machine.pass_time(100)
        assert found.file.pread(found.size, found.position) == before

    def test_when_everything_goes_an_empty_segment_takes_over(self, machine: Machine) -> None:
        manager, log = self.manager(machine)
        log.configure(config(segment_bytes=SIZE, retention_bytes=0))
        machine.wait_for(manager.enforce_retention)
        assert log.start_offset == log.end_offset == 5
        assert [segment.base_offset for segment in log.segments] == [5]
        assert machine.call(append, log, batch()) == 5

    def test_it_happens_by_itself(self, machine: Machine) -> None:
        manager, log = self.manager(machine)
        machine.call(manager.start)
        machine.pass_time(31)  # the first look is soon after the start
        assert log.start_offset == 3
        machine.call(append, log, batch())
        machine.pass_time(299)
        assert log.start_offset == 3
        machine.pass_time(3)
        assert log.start_offset == 4

    def test_the_start_survives_a_restart(self, machine: Machine) -> None:
        manager, log = self.manager(machine)
        machine.wait_for(manager.enforce_retention)
        machine.stop(manager)
        log = machine.manager(self.KNOWN).all_logs()[0]
        assert (log.start_offset, log.end_offset) == (3, 5)

    @pytest.mark.parametrize("seed", range(30))
    def test_a_loss_of_power_brings_back_whole_logs_or_nothing(self, seed: int) -> None:
        """Renames that were not synced are undone, or not, each by itself: what is left must have no hole."""
        with Machine(seed) as machine:
            manager, log = self.manager(machine, segments=8)
            machine.pass_time()  # all that was rolled is durable
            machine.wait_for(manager.enforce_retention)
            flushed = log.flushed_offset
            machine.host.power_loss()
            log = machine.manager(self.KNOWN).all_logs()[0]
            assert flushed <= log.end_offset <= 8
            assert log.start_offset == 6
            assert log.segments[0].base_offset == 6
            everything(log)

    @pytest.mark.parametrize("kind", ["write", "rename", "create"])
    def test_a_disk_that_refuses_is_no_end_of_tending(self, machine: Machine, kind: str) -> None:
        manager, log = self.manager(machine)
        machine.call(manager.start)
        fault = machine.disk.fail("*", operations=[kind])  # type: ignore[list-item]
        machine.pass_time(40)
        fault.heal()
        machine.pass_time(301)
        assert log.start_offset == 3 or log.failed is not None

    def test_producer_snapshots_go_with_their_segments(self, machine: Machine) -> None:
        manager, _ = self.manager(machine)
        machine.wait_for(manager.enforce_retention)
        machine.pass_time(100)
        assert [name for name in machine.names() if name.endswith(".snapshot")] == [
            f"{n:020d}.snapshot" for n in (3, 4)
        ]

    def test_a_flush_that_is_under_way_does_not_mind(self, machine: Machine) -> None:
        """It was to sync a snapshot that retention has renamed meanwhile."""
        manager, log = self.manager(machine, segments=0)
        log.configure(config(segment_bytes=SIZE, retention_bytes=0))

        def burst() -> None:
            for _ in range(6):
                append(log, batch())

        async def story() -> None:
            burst()
            await manager.enforce_retention()
            burst()
            await manager.enforce_retention()

        machine.wait_for(story)
        machine.pass_time()
        assert log.failed is None
        assert log.flushed_offset >= 11

    def test_the_folder_is_as_kafka_left_it_would_be(self, machine: Machine) -> None:
        manager, _ = self.manager(machine)
        machine.wait_for(manager.enforce_retention)
        machine.pass_time(100)
        machine.stop(manager)
        assert machine.names() == [
            *(f"00000000000000000003.{suffix}" for suffix in ("index", "log", "snapshot", "timeindex")),
            *(f"00000000000000000004.{suffix}" for suffix in ("index", "log", "snapshot", "timeindex")),
            "00000000000000000005.snapshot",
            "leader-epoch-checkpoint",
            "partition.metadata",
        ]
        assert machine.disk.exists(f"{FOLDER}/../.kafka_cleanshutdown")


class TestWithARemoteTier:
    TIERED: ClassVar[dict[str, object]] = {"remote_storage_enable": True, "local_retention_ms": 1000}

    @pytest.mark.parametrize(
        ("tiered_to", "now", "goes"),
        [(-1, 5000, 0), (0, 5000, 1), (1, 5000, 2), (1, 1001, 1), (1, 1000, 0), (2, 5000, 3)],
    )
    def test_only_what_is_there_goes(self, machine: Machine, tiered_to: int, now: int, goes: int) -> None:
        log = log_of(machine, 3, **self.TIERED)
        log.tiered_to = tiered_to
        assert deletable_segments(log, 3, NOW + now) == goes

    @pytest.mark.parametrize("policy", ["delete", ""])
    def test_without_a_policy_copies_go_as_well(self, machine: Machine, policy: str) -> None:
        log = log_of(machine, 3, cleanup_policy=policy, **self.TIERED)
        log.tiered_to = 1
        assert deletable_segments(log, log.end_offset, NOW + 1_000_000) == 2

    def test_nothing_goes_without_a_policy(self, machine: Machine) -> None:
        log = log_of(machine, 3, cleanup_policy="", retention_ms=1000, retention_bytes=1)
        assert deletable_segments(log, log.end_offset, NOW + 1_000_000) == 0

    def test_by_size_too(self, machine: Machine) -> None:
        log = log_of(machine, 5, remote_storage_enable=True, local_retention_bytes=2 * SIZE)
        assert deletable_segments(log, 5, NOW) == 0
        log.tiered_to = 3
        assert deletable_segments(log, 5, NOW) == 3

    def test_what_lies_before_the_start_goes_anyway(self, machine: Machine) -> None:
        log = log_of(machine, 3, remote_storage_enable=True)
        log.advance_start(2)
        assert deletable_segments(log, 3, NOW) == 2

    def test_when_nothing_is_copied_any_more_the_whole_retention_counts(self, machine: Machine) -> None:
        log = log_of(machine, 3, **self.TIERED, remote_log_copy_disable=True, retention_ms=9000)
        assert deletable_segments(log, 3, NOW + 5000) == 0
        assert deletable_segments(log, 3, NOW + 9001) == 1

    def test_the_active_segment_is_rolled_so_that_it_can_be_copied(self, machine: Machine) -> None:
        log = log_of(machine, 1, **self.TIERED)
        assert not give_up_old_segments(log, 1, NOW + 5000)
        assert [segment.base_offset for segment in log.segments] == [0, 1]
        assert not give_up_old_segments(log, 1, NOW + 5000)
        log.tiered_to = 0
        assert give_up_old_segments(log, 1, NOW + 5000)

    def test_the_logs_start_stays_and_what_is_gone_here_is_told_apart(self, machine: Machine) -> None:
        log = log_of(machine, 4, **self.TIERED)
        log.tiered_to = 1
        assert delete_oldest(log) and delete_oldest(log)
        assert (log.start_offset, log.local_start_offset) == (0, 2)
        with pytest.raises(BeforeLocalStart):
            log.read(1, 100, 4, at_least_one=True)
        log.advance_start(1)
        with pytest.raises(OffsetOutOfRange):
            log.read(0, 100, 4, at_least_one=True)
        assert log.read(2, 1000, 4, at_least_one=True) is not None

    def test_and_so_it_is_after_a_restart(self, machine: Machine) -> None:
        log = log_of(machine, 4, **self.TIERED)
        log.assign_epoch(3, 4)
        append(log, batch(), epoch=3)
        log.tiered_to = 1
        delete_oldest(log)
        delete_oldest(log)
        log.advance_start(1)
        log.stop()
        log = machine.open(settings=log.config, start_offset=1)
        assert (log.start_offset, log.local_start_offset, log.end_offset) == (1, 2, 5)
        assert log.epochs.starts == [(0, 1), (3, 4)]
