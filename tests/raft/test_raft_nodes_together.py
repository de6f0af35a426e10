"""Three replicas on one event loop, each with its own disk: elections and replication as the driver does them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from random import Random
from uuid import UUID

import pytest
from tests.waiting import PATIENCE_S

from ottla.env.clock import SystemClock
from ottla.env.executor import PoolExecutor
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.model.errors import ErrorCode
from ottla.raft import quorum_state, snapshot_format
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.memory_log import MemoryRaftLog
from ottla.raft.messages import Destination, Request, Response, VoteRequest, VoteResponse
from ottla.raft.node import Company, NotLeaderError, RaftNode
from ottla.raft.settings import QuorumSettings
from ottla.raft.snapshot_format import Contents
from ottla.raft.snapshot_store import SnapshotStore
from ottla.raft.voters import Endpoint, ReplicaKey, VersionRange, VoterNode, VoterSet
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.sim.disk import SimDisk

FOLDER = "/data/__cluster_metadata-0"
FAST = QuorumSettings(
    election_timeout_ms=100,
    fetch_timeout_ms=300,
    request_timeout_ms=300,
    fetch_max_wait_ms=50,
    fetch_snapshot_max_bytes=1000,
)
ENDPOINTS = {i: Endpoint("CONTROLLER", f"n{i}", 9093) for i in (1, 2, 3)}


class Wires:
    """Between the replicas of a test."""

    def __init__(self) -> None:
        self.nodes: dict[int, RaftNode] = {}

    async def ask(self, to: Destination, request: Request) -> Response | None:
        await asyncio.sleep(0.001)
        node = self.nodes.get(int(to.host[1:]))
        if node is None:
            return None
        try:
            return await asyncio.wait_for(node.handle(request), 1)
        except TimeoutError:
            return None


class Trio:
    def __init__(self) -> None:
        self.wires = Wires()
        self.envs = {i: self._env(i) for i in ENDPOINTS}
        self.logs = {i: MemoryRaftLog() for i in ENDPOINTS}

    def _env(self, i: int) -> Env:
        disk = SimDisk(Random(i))
        disk.make_dirs(FOLDER)
        return Env(SystemClock(), disk, TcpNetwork(), PoolExecutor(), SeededRandom(Random(i)))

    async def start(self, i: int) -> RaftNode:
        others = [Destination(j, f"n{j}", 9093) for j in ENDPOINTS if j != i]
        me = VoterNode(ReplicaKey(i, UUID(int=100 + i)), (ENDPOINTS[i],), VersionRange(0, 1))
        company = Company(me, "cluster", VoterSet.static(ENDPOINTS, ENDPOINTS), self.wires, others, FAST)
        store = SnapshotStore(self.envs[i].disk, FOLDER)
        store.recover(0)
        company = replace(company, snapshots=store)
        node = RaftNode(self.envs[i], FOLDER, self.logs[i], i, tuple(ENDPOINTS), company=company)
        self.wires.nodes[i] = node
        await node.start()
        return node

    async def leader(self) -> RaftNode:
        await until(lambda: any(node.is_leader and node.high_watermark > 0 for node in self.wires.nodes.values()))
        return max(
            (node for node in self.wires.nodes.values() if node.is_leader and node.high_watermark > 0),
            key=lambda node: node.epoch,
        )

    async def stop(self) -> None:
        for node in list(self.wires.nodes.values()):
            await node.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def a_batch(value: bytes) -> bytes:
    return build_batch([Record(None, value, 5)])


def test_three_elect_a_leader_and_replicate() -> None:
    async def story() -> None:
        trio = Trio()
        for i in ENDPOINTS:
            await trio.start(i)
        leader = await trio.leader()

        offset = leader.append(a_batch(b"hello"))
        await leader.committed(offset)

        await until(lambda: all(node.high_watermark > offset for node in trio.wires.nodes.values()))
        assert trio.logs[1].batches == trio.logs[2].batches == trio.logs[3].batches
        assert all(log.flushed_offset > offset for log in trio.logs.values())
        await trio.stop()

    asyncio.run(story())


def test_a_leader_that_dies_is_replaced_and_loses_what_nobody_else_had() -> None:
    async def story() -> None:
        trio = Trio()
        for i in ENDPOINTS:
            await trio.start(i)
        old = await trio.leader()
        old_id = old.leader_id
        kept = old.append(a_batch(b"kept"))
        await old.committed(kept)

        del trio.wires.nodes[old_id]  # cut off: it goes on believing that it leads
        lost = asyncio.ensure_future(old.committed(old.append(a_batch(b"lost"))))
        new = await trio.leader()
        offset = new.append(a_batch(b"instead"))
        await new.committed(offset)
        trio.wires.nodes[old_id] = old

        await until(lambda: old.high_watermark > offset)
        assert trio.logs[1].batches == trio.logs[2].batches == trio.logs[3].batches
        assert new.epoch > 1
        assert isinstance(await until_failed(lost), NotLeaderError)
        await trio.stop()

    asyncio.run(story())


async def until_failed(future: asyncio.Future[None]) -> BaseException | None:
    await asyncio.wait([future], timeout=PATIENCE_S)
    return future.exception()


def test_a_leader_that_stops_hands_over_and_comes_back_as_a_follower() -> None:
    async def story() -> None:
        trio = Trio()
        for i in ENDPOINTS:
            await trio.start(i)
        old = await trio.leader()
        old_id, epoch = old.leader_id, old.epoch

        await old.stop()
        del trio.wires.nodes[old_id]
        new = await trio.leader()
        assert new.epoch > epoch

        again = await trio.start(old_id)
        await until(lambda: again.high_watermark >= new.high_watermark > 0)
        assert not again.is_leader
        await trio.stop()

    asyncio.run(story())


def test_one_that_comes_late_gets_a_snapshot_and_then_the_rest() -> None:
    async def story() -> None:
        trio = Trio()
        await trio.start(1)
        await trio.start(2)
        leader = await trio.leader()
        offset = leader.append(build_batch([Record(None, b"x" * 3000, 5)] * 5))
        await leader.committed(offset + 4)
        taken = OffsetAndEpoch(offset + 5, leader.epoch)
        leader.add_snapshot(taken, snapshot_format.encode([a_batch(b"y" * 5000)], 7, epoch=leader.epoch))
        after = leader.append(a_batch(b"after"))

        late = await trio.start(3)
        told: list[tuple[OffsetAndEpoch, Contents]] = []
        late.on_snapshot.append(lambda id, contents: told.append((id, contents)))
        await until(lambda: late.high_watermark > after)

        assert [id for id, _ in told] == [taken]
        assert len(told[0][1].batches) == 1
        assert trio.logs[3].start_offset == taken.offset
        await late.stop()
        again = await trio.start(3)
        await until(lambda: again.high_watermark > after)
        assert trio.logs[3].start_offset == taken.offset
        await trio.stop()

    asyncio.run(story())


def test_a_snapshot_takes_the_place_of_a_longer_log_of_an_earlier_epoch_also_after_a_crash() -> None:
    async def story() -> None:
        trio = Trio()
        for number in range(12):  # of a leader that nobody followed any more
            trio.logs[3].append(a_batch(b"never committed %d" % number), epoch=1)
        taken = OffsetAndEpoch(9, 2)
        store = SnapshotStore(trio.envs[3].disk, FOLDER)
        store.write(taken, snapshot_format.encode([a_batch(b"y")], 7, epoch=taken.epoch))

        node = await trio.start(3)  # the crash was after the snapshot was whole, and before the log was dropped

        assert node.quorum.replica.log.end == taken
        assert (trio.logs[3].start_offset, trio.logs[3].end_offset) == (9, 9)
        await trio.stop()

    asyncio.run(story())


def test_a_vote_that_cannot_be_written_is_not_given() -> None:
    async def story() -> None:
        trio = Trio()
        node = await trio.start(1)
        failed: list[BaseException] = []
        node.on_failed.append(failed.append)
        vote = VoteRequest("cluster", 50, ReplicaKey(2), OffsetAndEpoch(0, 0), pre_vote=False)

        def broken(*_: object) -> None:
            raise OSError(5, "Input/output error")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quorum_state, "store", broken)
            with pytest.raises(OSError, match="Input/output"):
                node.handle(vote)
        after = await node.handle(replace(vote, epoch=51))

        assert failed == [node.failure]
        assert isinstance(after, VoteResponse)
        assert (after.granted, after.partition_error) == (False, ErrorCode.broker_not_available)
        await node.stop()

    asyncio.run(story())
