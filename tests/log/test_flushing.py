"""flush.messages, flush.ms, and what a flush makes durable."""

import errno
from collections.abc import Iterator

import pytest
from tests.log.given import (
    FOLDER,
    LOGS,
    NOW,
    PARTITION,
    TOPIC_ID,
    Machine,
    all_batches,
    append,
    batch,
    config,
    everything,
)

from ottla.log.partition_log import PartitionLog


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def syncs(machine: Machine) -> int:
    return sum(event.event == "disk sync" and event.details.endswith(".log") for event in machine.world.trace.events)


class TestFlushMessages:
    def test_what_was_to_be_cut_and_is_not_is_synced_again(self, machine: Machine) -> None:
        """Else whoever waits for it would wait for ever: a follower asks for no more before."""
        log = machine.open(flush_messages=1)
        machine.call(append, log, batch())
        machine.call(append, log, batch())
        machine.pass_time()
        machine.call(log.doubt_from, 1)
        machine.pass_time()
        assert (log.flushed_offset, log.committable_offset) == (1, 1)
        machine.call(log.doubt_from, None)
        machine.pass_time()
        assert (log.flushed_offset, log.committable_offset) == (2, 2)

    def test_nothing_is_committable_before_its_sync(self, machine: Machine) -> None:
        log = machine.open(flush_messages=1)
        machine.call(append, log, batch())
        assert (log.end_offset, log.flushed_offset, log.committable_offset) == (1, 0, 0)
        machine.pass_time()
        assert (log.end_offset, log.flushed_offset, log.committable_offset) == (1, 1, 1)

    def test_up_to_the_number_records_need_no_sync(self, machine: Machine) -> None:
        log = machine.open(flush_messages=3)
        machine.call(append, log, batch())
        machine.call(append, log, batch())
        assert log.committable_offset == 2
        machine.pass_time()
        assert syncs(machine) == 0
        machine.call(append, log, batch())
        assert log.committable_offset == 2, "the third is held back, those before it are not"
        machine.call(append, log, batch())
        assert log.committable_offset == 2, "what comes after it waits too"
        machine.pass_time()
        assert log.committable_offset == 4
        assert log.flushed_offset == 3

    def test_records_count_not_batches(self, machine: Machine) -> None:
        log = machine.open(flush_messages=10)
        machine.call(append, log, batch(9))
        assert log.committable_offset == 9
        machine.call(append, log, batch(5))
        assert log.committable_offset == 9
        machine.pass_time()
        assert log.committable_offset == log.flushed_offset == 14

    def test_appends_during_a_sync_share_the_next_one(self, machine: Machine) -> None:
        log = machine.open(flush_messages=1)

        def burst() -> None:
            for _ in range(50):
                append(log, batch())

        machine.call(burst)
        machine.pass_time()
        assert log.flushed_offset == 50
        assert syncs(machine) == 2, "one for the first record, one for the 49 that came during it"

    def test_stages_are_told_in_order(self, machine: Machine) -> None:
        log = machine.open(flush_messages=1)
        told: list[tuple[int, int]] = []
        log.on_flushed = lambda offset: told.append((offset, log.committable_offset))
        machine.call(append, log, batch())
        machine.call(append, log, batch(4))
        machine.pass_time()
        assert told == [(1, 1), (5, 5)]

    @pytest.mark.parametrize("seed", range(40))
    def test_what_was_committable_survives_a_loss_of_power(self, seed: int) -> None:
        with Machine(seed) as machine:
            log = machine.open(flush_messages=1, segment_bytes=400)
            for n in range(seed % 13 + 3):
                machine.call(append, log, batch(n % 3 + 1, value=b"%d" % n))
                machine.pass_time(0.002)
            appended, committable = everything(log), log.committable_offset
            log = machine.after_power_loss(log)
            assert log.end_offset >= committable
            survived = everything(log)
            assert survived == appended[: len(survived)]


class TestFlushMs:
    def open(self, machine: Machine, flush_ms: int) -> PartitionLog:
        known = {PARTITION: (TOPIC_ID, config(flush_ms=flush_ms))}
        manager = machine.manager(known)
        return machine.call(manager.get_or_create, PARTITION, *known[PARTITION])

    def test_the_first_unsynced_record_waits_no_longer(self, machine: Machine) -> None:
        log = self.open(machine, 500)
        machine.call(append, log, batch())
        machine.pass_time(0.3)
        machine.call(append, log, batch())
        machine.pass_time(0.19)
        assert log.flushed_offset == 0
        machine.pass_time(0.05)
        assert log.flushed_offset == 2

    def test_acknowledgements_do_not_wait_for_it(self, machine: Machine) -> None:
        log = self.open(machine, 500)
        machine.call(append, log, batch())
        assert log.committable_offset == 1

    def test_each_first_record_after_a_flush_starts_the_time_anew(self, machine: Machine) -> None:
        log = self.open(machine, 500)
        for n in range(1, 4):
            machine.call(append, log, batch())
            machine.pass_time(0.45)
            assert log.flushed_offset == n - 1
            machine.pass_time(0.1)
            assert log.flushed_offset == n

    def test_a_record_that_comes_while_it_syncs_is_not_forgotten(self, machine: Machine) -> None:
        log = self.open(machine, 100)

        machine.call(append, log, batch())
        while log._flushing is None:
            machine.pass_time(0.001)
        machine.call(append, log, batch())
        machine.pass_time(0.2)
        assert log.flushed_offset == 2

    def test_nothing_is_synced_while_nothing_comes(self, machine: Machine) -> None:
        log = self.open(machine, 10)
        machine.call(append, log, batch())
        machine.pass_time(1)
        before = syncs(machine)
        machine.pass_time(100)
        assert syncs(machine) == before

    def test_it_counts_for_what_a_crash_left_unsynced(self, machine: Machine) -> None:
        known = {PARTITION: (TOPIC_ID, config())}
        log = machine.call(machine.manager(known).get_or_create, PARTITION, *known[PARTITION])
        machine.call(append, log, batch())
        machine.host.crash()
        known = {PARTITION: (TOPIC_ID, config(flush_ms=100))}
        log = machine.manager(known).all_logs()[0]
        assert log.flushed_offset == 0
        machine.pass_time(0.2)
        assert log.flushed_offset == 1

    def test_a_shorter_time_is_obeyed_at_once(self, machine: Machine) -> None:
        log = self.open(machine, 100_000)
        machine.call(append, log, batch())
        machine.call(log.configure, config(flush_ms=100))
        machine.pass_time(0.2)
        assert log.flushed_offset == 1

    def test_with_flush_messages_whichever_comes_first(self, machine: Machine) -> None:
        known = {PARTITION: (TOPIC_ID, config(flush_ms=500, flush_messages=3))}
        log = machine.call(machine.manager(known).get_or_create, PARTITION, *known[PARTITION])
        machine.call(append, log, batch(2))
        machine.pass_time(0.6)
        assert log.flushed_offset == 2
        machine.call(append, log, batch(3))
        machine.pass_time(0.1)
        assert log.flushed_offset == 5

    def test_a_deleted_log_is_left_alone(self, machine: Machine) -> None:
        known = {PARTITION: (TOPIC_ID, config(flush_ms=100))}
        manager = machine.manager(known)
        log = machine.call(manager.get_or_create, PARTITION, *known[PARTITION])
        machine.call(append, log, batch())
        machine.call(manager.delete, PARTITION)
        machine.pass_time(100)
        assert log.failed is None


class TestWhatAFlushMakesDurable:
    def test_by_default_nobody_flushes_but_a_roll(self, machine: Machine) -> None:
        log = machine.open()
        machine.call(append, log, batch())
        machine.pass_time(1000)
        assert log.flushed_offset == 0
        machine.call(log.roll, NOW)
        machine.pass_time()
        assert log.flushed_offset == 1

    @pytest.mark.parametrize("seed", range(30))
    def test_a_rolled_segment_is_complete_although_its_records_were_synced_before(self, seed: int) -> None:
        """With flush.messages=1 there is nothing left to flush when it rolls, but its last index entries are new."""
        with Machine(seed) as machine:
            log = machine.open(flush_messages=1, segment_bytes=400, index_interval_bytes=0)
            for n in range(10):
                machine.call(append, log, batch(timestamp=NOW + n))
                machine.pass_time()
            assert log.flushed_offset == 10
            last = [segment.max_timestamp for segment in log.segments]
            machine.host.power_loss()
            log = machine.open(clean=False, recovery_point=10, settings=log.config)
            assert [segment.max_timestamp for segment in log.segments] == last
            names = machine.names()
            for segment in log.segments[1:]:
                assert f"{segment.base_offset:020d}.snapshot" in names

    @pytest.mark.parametrize("seed", range(20))
    def test_two_flushes_at_once_are_both_to_be_believed(self, seed: int) -> None:
        """The metadata log asks for jobs of its own while a roll's flush is under way: names must not fall between."""
        with Machine(seed) as machine:
            log = machine.open(segment_bytes=300)

            async def story() -> None:
                for n in range(6):
                    append(log, batch(value=b"%d" % n))  # rolls now and then
                    goal = log.end_offset
                    await machine.env.executor.blocking(log.flush_job(goal))
                    log.flushed(goal)

            machine.wait_for(story)
            assert log.flushed_offset == 6
            log = machine.after_power_loss(log)
            assert log.end_offset == 6

    @pytest.mark.parametrize("seed", range(20))
    def test_the_topic_id_is_as_durable_as_the_records(self, seed: int) -> None:
        with Machine(seed) as machine:
            known = {PARTITION: (TOPIC_ID, config(flush_messages=1))}
            manager = machine.manager(known)
            log = machine.call(manager.get_or_create, PARTITION, *known[PARTITION])
            machine.call(append, log, batch())
            machine.pass_time()
            machine.host.power_loss()
            assert b"topic_id: AAAAAAAAAAAAAAAAAAAABw" in machine.read(f"{FOLDER}/partition.metadata")
            assert machine.manager(known).all_logs()[0].end_offset == 1

    @pytest.mark.parametrize("seed", range(20))
    def test_epochs_are_as_durable_as_the_records(self, seed: int) -> None:
        with Machine(seed) as machine:
            log = machine.open(flush_messages=1)
            for epoch in range(5):
                machine.call(append, log, batch(2), epoch=epoch)
                machine.pass_time()
            expected = list(log.epochs.starts)
            log = machine.after_power_loss(log)
            assert log.epochs.starts == expected


class TestFailure:
    def test_after_a_failed_sync_nothing_more_is_taken(self, machine: Machine) -> None:
        log = machine.open(flush_messages=1)
        failed: list[bool] = []
        log.on_failed = lambda: failed.append(True)
        machine.disk.fail("*.log", operations=["sync"], times=1)
        machine.call(append, log, batch())
        machine.pass_time()
        assert log.failed is not None
        assert failed == [True]
        assert (log.flushed_offset, log.committable_offset) == (0, 0)
        with pytest.raises(OSError, match="Input/output"):
            machine.call(append, log, batch())

    def test_after_a_failed_write_the_log_is_as_it_was(self, machine: Machine) -> None:
        log = machine.open()
        append(log, batch())
        machine.disk.fail("*.log", errno.ENOSPC, operations=["write"], times=1)
        with pytest.raises(OSError, match="No space"):
            append(log, batch())
        assert log.failed is not None
        assert log.end_offset == 1
        assert machine.disk.file_size(log.active.path) == len(batch())

    def test_also_when_the_epoch_could_not_be_written(self, machine: Machine) -> None:
        """The batch must not lie in the file without the log knowing: the next one would get the same offset."""
        log = machine.open()
        append(log, batch())
        machine.disk.fail("leader-epoch-checkpoint.tmp", errno.EMFILE, operations=["create"], times=1)
        with pytest.raises(OSError, match="Too many open files"):
            append(log, batch(), epoch=1)
        append(log, batch(), epoch=1)
        assert [found.header.base_offset for found in all_batches(log)] == [0, 1]

    def test_a_disk_that_does_not_take_the_epoch_has_failed(self, machine: Machine) -> None:
        log = machine.open()
        append(log, batch())
        heard: list[OSError] = []
        log.on_error = heard.append
        machine.disk.fail("leader-epoch-checkpoint.tmp", operations=["create"], times=1)
        with pytest.raises(OSError, match="Input/output"):
            append(log, batch(), epoch=1)
        assert heard == [log.failed]
        assert log.end_offset == 1 and [found.header.base_offset for found in all_batches(log)] == [0]

    def test_also_when_an_index_could_not_be_written(self, machine: Machine) -> None:
        log = machine.open(index_interval_bytes=0)
        for _ in range(2000):
            append(log, batch())
        machine.disk.fail("*.index", operations=["write", "create"])

        def fill() -> None:
            for _ in range(2000):
                append(log, batch())

        with pytest.raises(OSError, match="Input/output"):
            fill()
        machine.disk.heal()
        end = log.end_offset
        assert machine.after_crash(log).end_offset == end

    def test_a_log_that_failed_leaves_no_clean_mark(self, machine: Machine) -> None:
        known = {PARTITION: (TOPIC_ID, config(flush_messages=1))}
        manager = machine.manager(known)
        log = machine.call(manager.get_or_create, PARTITION, *known[PARTITION])
        machine.disk.fail("*.log", operations=["sync"], times=1)
        machine.call(append, log, batch())
        machine.pass_time()
        machine.stop(manager)
        assert not machine.disk.exists(f"{LOGS}/.kafka_cleanshutdown")

    def test_neither_does_one_that_fails_while_it_stops(self, machine: Machine) -> None:
        known = {PARTITION: (TOPIC_ID, config())}
        manager = machine.manager(known)
        log = machine.call(manager.get_or_create, PARTITION, *known[PARTITION])
        machine.call(append, log, batch())
        machine.disk.fail("*.log", operations=["sync"], times=1)
        machine.stop(manager)
        assert not machine.disk.exists(f"{LOGS}/.kafka_cleanshutdown")
        assert machine.disk.exists(f"{LOGS}/recovery-point-offset-checkpoint")
