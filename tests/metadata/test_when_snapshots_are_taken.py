"""A snapshot stands for all of the log before it, so it must hold all of that."""

import asyncio
from random import Random

from tests.waiting import PATIENCE_S

from ottla.env.clock import SystemClock
from ottla.env.executor import PoolExecutor
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.metadata.batches import metadata_batch
from ottla.metadata.feed import MetadataFeed
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.begin_transaction_record import BeginTransactionRecord
from ottla.metadata.records.end_transaction_record import EndTransactionRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.metadata.snapshot import load
from ottla.metadata.snapshots import Snapshots, SnapshotSettings
from ottla.raft.memory_log import MemoryRaftLog
from ottla.raft.node import Company, RaftNode
from ottla.raft.snapshot_store import SnapshotStore
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet
from ottla.sim.disk import SimDisk

FOLDER = "/data/__cluster_metadata-0"


def test_none_is_taken_within_a_transaction() -> None:
    """Kafka's controllers may write one in several batches. Its first records would be in no snapshot and no log."""

    async def story() -> None:
        disk = SimDisk(Random(1))
        disk.make_dirs(FOLDER)
        env = Env(SystemClock(), disk, TcpNetwork(), PoolExecutor(), SeededRandom(Random(1)))
        store = SnapshotStore(disk, FOLDER)
        company = Company(VoterNode(ReplicaKey(1)), "cluster", VoterSet.static((1,)), None, snapshots=store)
        raft = RaftNode(env, FOLDER, MemoryRaftLog(), 1, (1,), company=company)
        feed = MetadataFeed(env, raft)
        taking = Snapshots(env, raft, feed, SnapshotSettings(max_bytes=1))
        await feed.start()
        await raft.start()
        await feed.reached(raft.log.end_offset - 1)
        taking.start()

        async def write(*records: MetadataRecord) -> None:
            last = raft.append(metadata_batch(records, 30, 0)) + len(records) - 1
            await feed.reached(last)

        await write(BeginTransactionRecord(name="x"), FeatureLevelRecord(name="metadata.version", feature_level=30))
        await write(FeatureLevelRecord(name="group.version", feature_level=1))
        await asyncio.sleep(0.05)
        assert store.ids == []

        await write(EndTransactionRecord())
        async with asyncio.timeout(PATIENCE_S):
            while not store.ids:
                await asyncio.sleep(0.005)

        (taken,) = store.ids
        assert load(store.read(taken), taken).features == {"metadata.version": 30, "group.version": 1}
        await taking.stop()
        await raft.stop()
        await feed.stop()

    asyncio.run(story())
