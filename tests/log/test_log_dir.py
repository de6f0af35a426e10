"""A log dir: what is opened, what is set aside, what is deleted, and what its checkpoints say."""

import asyncio
import logging
from collections.abc import Iterator
from uuid import UUID

import pytest
from tests.log.given import (
    FOLDER,
    LOGS,
    NOW,
    PARTITION,
    TOPIC_ID,
    Machine,
    append,
    batch,
    config,
    everything,
)

from ottla.log.log_dir import LogDir
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition

SIZE = len(batch())
OTHER = TopicPartition("invoices", 3)
NEW_ID = UUID(int=99)
SETTINGS = config(segment_bytes=SIZE, file_delete_delay_ms=60_000)
KNOWN = {PARTITION: (TOPIC_ID, SETTINGS)}


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def create(machine: Machine, manager: LogManager, partition: TopicPartition = PARTITION) -> PartitionLog:
    return machine.call(manager.get_or_create, partition, TOPIC_ID, SETTINGS)


class TestLoading:
    def test_a_new_partition_gets_a_folder_with_its_topics_id(self, machine: Machine) -> None:
        create(machine, machine.manager({}))
        assert machine.read(f"{FOLDER}/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw"

    def test_what_the_metadata_knows_is_opened_again(self, machine: Machine) -> None:
        manager = machine.manager({})
        machine.call(append, create(machine, manager), batch(3))
        machine.stop(manager)
        manager = machine.manager(KNOWN)
        assert [(log.partition, log.topic_id, log.end_offset) for log in manager.all_logs()] == [
            (PARTITION, TOPIC_ID, 3)
        ]

    def test_what_it_does_not_know_is_set_aside(self, machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
        manager = machine.manager({})
        machine.call(append, create(machine, manager), batch(3))
        machine.stop(manager)
        manager = machine.manager({})
        assert manager.all_logs() == []
        stray = next(name for name in machine.names(LOGS) if name.endswith("-stray"))
        assert stray.startswith("orders-0.")
        assert machine.disk.file_size(f"{LOGS}/{stray}/{0:020d}.log") > 0
        assert "belongs to no topic" in caplog.text
        machine.stop(manager)
        machine.manager(KNOWN)
        assert stray in machine.names(LOGS), "and stays so"

    def test_so_is_a_folder_of_another_topic_of_that_name(self, machine: Machine) -> None:
        manager = machine.manager({})
        machine.call(append, create(machine, manager), batch(3))
        machine.stop(manager)
        manager = machine.manager({PARTITION: (NEW_ID, SETTINGS)})
        assert manager.all_logs() == []
        log = machine.call(manager.get_or_create, PARTITION, NEW_ID, SETTINGS)
        assert log.end_offset == 0

    @pytest.mark.parametrize(
        "content", [None, b"", b"version: 0\n", b"topic_id: AAAA", b"\xff\xfe", b"version: 0\ntopic_id: !"]
    )
    def test_a_folder_without_a_readable_id_goes_by_its_name_and_gets_one(
        self, machine: Machine, content: bytes | None
    ) -> None:
        manager = machine.manager({})
        machine.call(append, create(machine, manager), batch(3))
        machine.stop(manager)
        machine.disk.remove(f"{FOLDER}/partition.metadata")
        if content is not None:
            machine.overwrite(f"{FOLDER}/partition.metadata", content)
        assert machine.manager(KNOWN).all_logs()[0].end_offset == 3
        assert machine.read(f"{FOLDER}/partition.metadata").endswith(b"topic_id: AAAAAAAAAAAAAAAAAAAABw")

    def test_other_folders_and_files_are_nobodys_business(self, machine: Machine) -> None:
        for folder in ("lost+found", "__cluster_metadata-0", "orders", "orders-x", "orders-0.abc-future"):
            machine.disk.make_dirs(f"{LOGS}/{folder}")
        machine.overwrite(f"{LOGS}/meta.properties", b"version=1\n")
        before = machine.names(LOGS)
        assert machine.manager({}).all_logs() == []
        assert set(before) <= set(machine.names(LOGS))

    def test_a_dir_has_one_user(self, machine: Machine) -> None:
        machine.manager({})
        with pytest.raises(OttlaError, match="in use by another broker"):
            LogDir(machine.env, LOGS)

    def test_new_partitions_go_to_the_emptiest_dir(self, machine: Machine) -> None:
        manager = machine.manager({})
        manager.dirs.append(machine.call(LogDir, machine.env, "/more"))
        for number in range(4):
            create(machine, manager, TopicPartition("t", number))
        assert [len(log_dir.logs) for log_dir in manager.dirs] == [2, 2]


class TestCleanStop:
    def test_leaves_kafkas_mark_and_a_start_takes_it_away(self, machine: Machine) -> None:
        manager = machine.manager({})
        create(machine, manager)
        machine.stop(manager, broker_epoch=12)
        assert machine.read(f"{LOGS}/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":12}'
        manager = machine.manager(KNOWN)
        assert manager.dirs[0].clean_broker_epoch == 12
        assert not machine.disk.exists(f"{LOGS}/.kafka_cleanshutdown")

    def test_the_mark_is_gone_before_anything_is_touched(self, machine: Machine) -> None:
        """Else a crash while loading would leave half-made indexes that the next start trusts."""
        manager = machine.manager({})
        create(machine, manager)
        machine.stop(manager)
        machine.world.trace.events.clear()
        machine.disk.remove(f"{FOLDER}/{0:020d}.index")
        machine.manager(KNOWN)
        changes = [event.details for event in machine.world.trace.events if event.event.startswith("disk ")]
        marks = [n for n, details in enumerate(changes) if "cleanshutdown" in details]
        indexes = [n for n, details in enumerate(changes) if ".index" in details and n > 0]
        assert marks
        assert indexes
        assert max(marks) < min(n for n in indexes if "remove" not in changes[n] and n > max(marks))
        assert changes[max(marks) + 1] == LOGS, "and durably so"

    def test_after_a_crash_there_is_none(self, machine: Machine) -> None:
        create(machine, machine.manager({}))
        machine.host.crash()
        assert not machine.manager(KNOWN).dirs[0].was_clean

    def test_a_new_folder_is_not_told_to_be_left_by_a_crash(
        self, machine: Machine, caplog: pytest.LogCaptureFixture
    ) -> None:
        told = "not left by a clean stop"
        with caplog.at_level(logging.INFO):
            create(machine, machine.manager({}))
            assert told not in caplog.text
            machine.host.crash()
            machine.manager(KNOWN)
            assert told in caplog.text

    def test_waits_for_what_is_under_way(self, machine: Machine) -> None:
        manager = machine.manager({})
        log = create(machine, manager)

        async def story() -> None:
            for _ in range(10):
                append(log, batch())
            manager.checkpoint()
            await manager.stop(1)

        machine.wait_for(story)
        before = machine.disk.digest()
        machine.pass_time(100)
        assert machine.disk.digest() == before
        assert machine.manager(KNOWN).all_logs()[0].end_offset == 10


class TestCheckpoints:
    def test_are_written_as_kafka_does(self, machine: Machine) -> None:
        manager = machine.manager({}, lambda partition: 2)
        log = create(machine, manager)
        create(machine, manager, OTHER)
        machine.call(append, log, batch(3))
        machine.flush(log)
        log.advance_start(1)
        machine.call(manager.start)
        machine.pass_time(61)
        assert machine.read(f"{LOGS}/recovery-point-offset-checkpoint") == b"0\n2\norders 0 3\ninvoices 3 0\n"
        assert machine.read(f"{LOGS}/log-start-offset-checkpoint") == b"0\n1\norders 0 1\n"
        assert machine.read(f"{LOGS}/replication-offset-checkpoint") == b"0\n2\norders 0 2\ninvoices 3 2\n"

    def test_the_recovery_point_is_what_was_synced(self, machine: Machine) -> None:
        manager = machine.manager({})
        log = create(machine, manager)
        machine.call(append, log, batch(3))
        machine.call(manager.checkpoint)
        machine.pass_time()
        assert machine.read(f"{LOGS}/recovery-point-offset-checkpoint") == b"0\n1\norders 0 0\n"

    @pytest.mark.parametrize(
        "content",
        [
            b"0\n",
            b"0\n1\norders 0 2",
            b"0\n2\norders 0 2\n",
            b"0\n1\norders 0 x\n",
            b"9\n0\n",
            b"\xff",
            b"0\n1\norders 0\n",
        ],
    )
    @pytest.mark.parametrize("name", ["recovery-point-offset", "log-start-offset", "replication-offset"])
    @pytest.mark.parametrize("clean", [True, False])
    def test_damaged_ones_only_mean_more_to_check(
        self, machine: Machine, name: str, content: bytes, clean: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        manager = machine.manager({})
        log = create(machine, manager)
        for n in range(6):
            machine.call(append, log, batch(value=b"%d" % n))
        machine.stop(manager)
        if not clean:
            machine.disk.remove(f"{LOGS}/.kafka_cleanshutdown")
        machine.overwrite(f"{LOGS}/{name}-checkpoint", content)
        with caplog.at_level(logging.WARNING):
            log = machine.manager(KNOWN).all_logs()[0]
        assert f"{name}-checkpoint" in caplog.text
        assert (log.start_offset, log.end_offset) == (0, 6)
        assert len(everything(log)) == 6

    def test_a_recovery_point_beyond_the_end_is_taken_back(self, machine: Machine) -> None:
        """What is appended there later was not synced, whatever an old checkpoint says."""
        manager = machine.manager({})
        machine.call(append, create(machine, manager), batch(3))
        machine.host.crash()
        machine.overwrite(f"{LOGS}/recovery-point-offset-checkpoint", b"0\n1\norders 0 50\n")
        log = machine.manager(KNOWN).all_logs()[0]
        assert log.flushed_offset == 3
        assert machine.read(f"{LOGS}/recovery-point-offset-checkpoint") == b"0\n1\norders 0 3\n"

    def test_a_start_beyond_the_end_begins_the_log_there(self, machine: Machine) -> None:
        manager = machine.manager({})
        machine.call(append, create(machine, manager), batch(3))
        machine.host.crash()
        machine.overwrite(f"{LOGS}/log-start-offset-checkpoint", b"0\n1\norders 0 50\n")
        log = machine.manager(KNOWN).all_logs()[0]
        assert (log.start_offset, log.end_offset) == (50, 50)
        assert machine.call(append, log, batch()) == 50


class TestDeletion:
    def test_the_folder_is_renamed_at_once_and_removed_after_the_delay(self, machine: Machine) -> None:
        manager = machine.manager({})
        machine.call(append, create(machine, manager), batch())
        machine.call(manager.delete, PARTITION)
        assert manager.get(PARTITION) is None
        marked = next(name for name in machine.names(LOGS) if name.endswith("-delete"))
        topic_and_partition, unique = marked.removesuffix("-delete").split(".")
        assert topic_and_partition == "orders-0"
        assert len(unique) == 32
        machine.pass_time(59)
        assert marked in machine.names(LOGS)
        machine.pass_time(2)
        assert marked not in machine.names(LOGS)

    def test_a_long_name_is_cut_so_that_the_folders_still_fits(self, machine: Machine) -> None:
        long = TopicPartition("t" * 249, 12345)
        manager = machine.manager({})
        create(machine, manager, long)
        machine.call(manager.delete, long)
        assert [len(name) for name in machine.names(LOGS) if name.endswith("-delete")] == [255]

    def test_one_that_a_crash_has_left_goes_at_the_next_start(self, machine: Machine) -> None:
        manager = machine.manager({})
        create(machine, manager)
        machine.call(manager.delete, PARTITION)
        machine.host.crash()
        manager = machine.manager({})
        assert [name for name in machine.names(LOGS) if name.endswith("-delete")]
        machine.pass_time()
        assert not [name for name in machine.names(LOGS) if name.endswith("-delete")]

    def test_its_offsets_leave_the_checkpoints(self, machine: Machine) -> None:
        manager = machine.manager({})
        machine.flush(create(machine, manager))
        machine.call(manager.checkpoint)
        machine.pass_time()
        machine.call(manager.delete, PARTITION)
        machine.pass_time()
        assert machine.read(f"{LOGS}/recovery-point-offset-checkpoint") == b"0\n0\n"


class TestRecreation:
    """A topic is deleted and made again under its name, while work for the old one is under way."""

    def recreate(self, machine: Machine, manager: LogManager) -> PartitionLog:
        return machine.call(manager.get_or_create, PARTITION, NEW_ID, SETTINGS)

    def test_the_new_one_is_empty_and_its_own(self, machine: Machine) -> None:
        manager = machine.manager({})
        machine.call(append, create(machine, manager), batch(3))
        log = self.recreate(machine, manager)
        assert (log.topic_id, log.end_offset) == (NEW_ID, 0)
        assert machine.call(append, log, batch()) == 0

    def test_a_flush_of_the_old_one_ends_in_peace(self, machine: Machine) -> None:
        manager = machine.manager({})
        old = create(machine, manager)

        async def story() -> PartitionLog:
            for _ in range(5):
                append(old, batch())
            manager.delete(PARTITION)
            new = manager.get_or_create(PARTITION, NEW_ID, SETTINGS)
            append(new, batch())
            return new

        new = machine.wait_for(story)
        machine.pass_time()
        assert old.failed is None
        assert new.failed is None
        machine.stop(manager)
        assert machine.manager({PARTITION: (NEW_ID, SETTINGS)}).all_logs()[0].end_offset == 1

    def test_retention_of_the_old_one_spares_the_files_of_the_new_one(self, machine: Machine) -> None:
        """It waits in the middle, for others or for the disk, and then finds another topic in the folder."""
        settings = config(segment_bytes=SIZE, retention_bytes=0, file_delete_delay_ms=1000)
        manager = machine.manager({}, lambda partition: 3)
        old = machine.call(manager.get_or_create, PARTITION, TOPIC_ID, settings)

        async def story() -> PartitionLog:
            for _ in range(3):
                append(old, batch())
            retention = asyncio.ensure_future(manager.enforce_retention())
            await asyncio.sleep(0)
            manager.delete(PARTITION)
            new = manager.get_or_create(PARTITION, NEW_ID, SETTINGS)
            for _ in range(3):
                append(new, batch())
            await retention
            return new

        new = machine.wait_for(story)
        machine.pass_time(100)
        assert len(everything(new)) == 3
        names = machine.names()
        assert all(f"{base:020d}.log" in names for base in range(3))

    def test_the_old_log_touches_nothing_any_more(self, machine: Machine) -> None:
        manager = machine.manager({})
        old = create(machine, manager)
        machine.call(append, old, batch())
        self.recreate(machine, manager)
        before = machine.disk.digest()
        with pytest.raises(OSError, match="closed"):
            old.read(0, 100, 1, at_least_one=True)
        machine.call(old.flush)
        machine.pass_time(10)
        for epoch in (old.epochs.latest, old.epochs.latest + 1):
            with pytest.raises(OSError, match="closed"):
                machine.call(append, old, batch(), epoch=epoch)
        with pytest.raises(OSError, match="closed"):
            machine.call(old.roll, NOW)
        assert machine.disk.digest() == before

    @pytest.mark.parametrize("seed", range(20))
    def test_offsets_of_the_old_one_are_not_applied_to_the_new_one(self, seed: int) -> None:
        """A crash comes before the checkpoints were written again in the background."""
        with Machine(seed) as machine:
            manager = machine.manager({})
            old = create(machine, manager)
            for _ in range(9):
                machine.call(append, old, batch())
            machine.flush(old)
            old.advance_start(7)
            machine.call(manager.checkpoint)
            machine.pass_time()
            assert b"orders 0 7" in machine.read(f"{LOGS}/log-start-offset-checkpoint")
            machine.call(manager.delete, PARTITION)
            new = self.recreate(machine, manager)
            machine.call(append, new, batch())
            machine.call(append, new, batch())
            machine.pass_time(0.0001 * seed)
            machine.host.crash()
            log = machine.manager({PARTITION: (NEW_ID, SETTINGS)}).all_logs()[0]
            assert (log.start_offset, log.end_offset) == (0, 2)

    def test_nor_those_of_one_that_was_deleted_before_the_start(self, machine: Machine) -> None:
        machine.overwrite(f"{LOGS}/log-start-offset-checkpoint", b"0\n1\norders 0 70\n")
        machine.overwrite(f"{LOGS}/recovery-point-offset-checkpoint", b"0\n1\norders 0 70\n")
        manager = machine.manager({})
        machine.call(append, create(machine, manager), batch())
        machine.host.crash()
        log = machine.manager(KNOWN).all_logs()[0]
        assert (log.start_offset, log.end_offset) == (0, 1)

    def test_leftovers_of_the_old_one_are_removed_in_their_folder(self, machine: Machine) -> None:
        manager = machine.manager({})
        old = create(machine, manager)
        for n in range(4):
            machine.call(append, old, batch(timestamp=NOW + n))
        new = self.recreate(machine, manager)
        machine.call(append, new, batch())
        machine.pass_time(100)
        assert not [name for name in machine.names(LOGS) if name.endswith("-delete")]
        assert len(everything(new)) == 1
