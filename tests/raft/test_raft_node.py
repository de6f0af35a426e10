"""A voter on an event loop: stages of an append, restarts, failing disks."""

import asyncio
from random import Random

import pytest

from ottla.env.clock import SystemClock
from ottla.env.executor import PoolExecutor
from ottla.env.network import TcpNetwork
from ottla.env.ports import Buffer, Env
from ottla.env.randomness import SeededRandom
from ottla.raft import quorum_state
from ottla.raft.control_records import ControlType, control_type
from ottla.raft.memory_log import MemoryRaftLog
from ottla.raft.node import NotLeaderError, RaftNode
from ottla.raft.quorum_state import ElectionState
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.reader import read_records
from ottla.record.records import Record
from ottla.sim.disk import SimDisk

FOLDER = "/data/__cluster_metadata-0"


def an_env() -> Env:
    disk = SimDisk(Random(1))
    disk.make_dirs(FOLDER)
    return Env(SystemClock(), disk, TcpNetwork(), PoolExecutor(), SeededRandom(Random(1)))


def a_batch(value: bytes = b"x", count: int = 1) -> bytes:
    return build_batch([Record(None, value, 5)] * count)


async def leading() -> tuple[RaftNode, MemoryRaftLog]:
    """The only voter, elected, and its log."""
    log = MemoryRaftLog()
    node = RaftNode(an_env(), FOLDER, log, 1, (1,))
    await node.start()
    return node, log


def test_the_first_record_of_an_epoch_says_who_leads_it() -> None:
    async def story() -> None:
        log = MemoryRaftLog()
        node = RaftNode(an_env(), FOLDER, log, 1, (1,))

        await node.start()

        header = parse_header(log.batches[0])
        assert (header.base_offset, header.leader_epoch, header.is_control) == (0, 1, True)
        assert control_type(read_records(log.batches[0])[0]) == ControlType.LEADER_CHANGE
        assert (node.is_leader, node.leader_id, node.epoch, node.high_watermark) == (True, 1, 1, 1)

    asyncio.run(story())


def test_the_epoch_is_in_quorum_state_before_it_is_in_the_log() -> None:
    async def story() -> None:
        env = an_env()
        known_when_appended: list[ElectionState | None] = []

        class Watching(MemoryRaftLog):
            def append(self, batch: Buffer, epoch: int) -> int:
                known_when_appended.append(quorum_state.load(env.disk, FOLDER))
                return super().append(batch, epoch)

        await RaftNode(env, FOLDER, Watching(), 1, (1,)).start()

        assert known_when_appended == [ElectionState(1, leader_id=1, voters=(1,))]

    asyncio.run(story())


def test_each_restart_leads_in_the_next_epoch() -> None:
    async def story() -> None:
        env, log = an_env(), MemoryRaftLog()
        for epoch in (1, 2, 3):
            node = RaftNode(env, FOLDER, log, 1, (1,))
            await node.start()
            node.append(a_batch())
            await node.stop()

            assert log.last_epoch == epoch
            assert quorum_state.load(env.disk, FOLDER) == ElectionState(epoch, leader_id=1, voters=(1,))
        assert [parse_header(batch).base_offset for batch in log.batches] == [0, 1, 2, 3, 4, 5]

    asyncio.run(story())


def test_an_epoch_whose_records_were_lost_is_not_used_again() -> None:
    async def story() -> None:
        env, log = an_env(), MemoryRaftLog()
        await RaftNode(env, FOLDER, log, 1, (1,)).start()
        log.batches.clear()
        log.flushed_offset = 0

        node = RaftNode(env, FOLDER, log, 1, (1,))
        await node.start()

        assert node.epoch == 2

    asyncio.run(story())


def test_an_append_is_flushed_before_it_is_committed() -> None:
    async def story() -> None:
        node, _ = await leading()
        stages: list[tuple[str, int]] = []
        node.on_flushed.append(lambda offset: stages.append(("flushed", offset)))
        node.on_committed.append(lambda offset: stages.append(("committed", offset)))

        base_offset = node.append(a_batch(count=3))
        assert (base_offset, node.high_watermark, stages) == (1, 1, [])
        await node.committed(3)

        assert stages == [("flushed", 4), ("committed", 4)]

    asyncio.run(story())


def test_appends_during_a_flush_are_committed_by_the_next_one() -> None:
    async def story() -> None:
        node, _ = await leading()
        committed: list[int] = []
        node.on_committed.append(committed.append)

        node.append(a_batch())
        await asyncio.sleep(0)  # the flush is under way, for offset 2 only
        node.append(a_batch())
        node.append(a_batch())
        await node.committed(3)

        assert committed == [2, 4]

    asyncio.run(story())


def test_an_append_that_fails_ends_the_leadership() -> None:
    async def story() -> None:
        node, log = await leading()

        told: list[BaseException] = []
        node.on_failed.append(told.append)

        log.append_error = OSError(28, "No space left on device")
        with pytest.raises(OSError, match="No space"):
            node.append(a_batch())
        log.append_error = None

        assert told == [node.failure]
        with pytest.raises(NotLeaderError):
            node.append(a_batch())

    asyncio.run(story())


def test_a_flush_that_fails_ends_the_leadership() -> None:
    async def story() -> None:
        node, log = await leading()
        told: list[BaseException] = []
        node.on_failed.append(told.append)

        log.flush_error = OSError(5, "Input/output error")
        offset = node.append(a_batch())
        with pytest.raises(NotLeaderError, match="Input/output"):
            await node.committed(offset)

        assert (node.is_leader, told, node.high_watermark) == (False, [log.flush_error], 1)
        with pytest.raises(NotLeaderError):
            node.append(a_batch())

    asyncio.run(story())


def test_stopping_commits_what_was_appended() -> None:
    async def story() -> None:
        node, log = await leading()
        node.append(a_batch())

        await node.stop()

        assert log.flushed_offset == log.end_offset == 2

    asyncio.run(story())
