"""The quorum's log on disk: what a follower does to it."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from ottla.env.clock import SystemClock
from ottla.env.executor import PoolExecutor
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.model.config.topic import log_config
from ottla.raft.log_view import EpochStart
from ottla.raft.metadata_log import MetadataLog
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.sim.disk import SimDisk


def an_env(disk: SimDisk | None = None) -> Env:
    disk = disk or SimDisk(Random(1))
    disk.make_dirs("/data")
    return Env(SystemClock(), disk, TcpNetwork(), PoolExecutor(), SeededRandom(Random(1)))


def a_batch(base: int, epoch: int, count: int = 2) -> bytes:
    return build_batch([Record(None, b"x" * 200, 5)] * count, base_offset=base, leader_epoch=epoch)


def a_log(env: Env, *, segment_bytes: int = 1 << 20) -> MetadataLog:
    """Epoch 1 from 0 on, epoch 2 from 4 on; ends at 10."""
    log = MetadataLog.open(env, "/data", replace(log_config(), segment_bytes=segment_bytes))
    for base, epoch in ((0, 1), (2, 1), (4, 2), (6, 2), (8, 2)):
        log.append_as_is(a_batch(base, epoch))
    return log


def bases(log: MetadataLog) -> list[int]:
    return [parse_header(batch).base_offset for batch in log.read_from(0)]


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1000], ids=["one segment", "several segments"])
@pytest.mark.parametrize(
    ("end", "left", "starts"),
    [
        (10, [0, 2, 4, 6, 8], [EpochStart(1, 0), EpochStart(2, 4)]),
        (8, [0, 2, 4, 6], [EpochStart(1, 0), EpochStart(2, 4)]),
        (4, [0, 2], [EpochStart(1, 0)]),
        (0, [], []),
    ],
)
def test_a_truncated_log_ends_where_it_should_and_goes_on_from_there(
    end: int, left: list[int], starts: list[EpochStart], segment_bytes: int
) -> None:
    async def story() -> None:
        env = an_env()
        log = a_log(env, segment_bytes=segment_bytes)

        log.truncate(end)
        assert (log.end_offset, bases(log), log.epoch_starts) == (end, left, starts)
        log.append_as_is(a_batch(end, 3))
        assert await log.flush() == end + 2

        await log.stop()
        again = MetadataLog.open(env, "/data", replace(log_config(), segment_bytes=segment_bytes))
        assert (again.last_epoch, bases(again)) == (3, [*left, end])

    asyncio.run(story())


def test_batches_are_read_as_far_as_they_fit_and_one_always() -> None:
    log = a_log(an_env())

    assert [parse_header(batch).base_offset for batch in log.read(3, 1)] == [2]
    assert [parse_header(batch).base_offset for batch in log.read(2, 1100)] == [2, 4]
    assert log.read(10, 1000) == []


def test_a_log_restarts_where_a_snapshot_ends() -> None:
    async def story() -> None:
        env = an_env()
        log = a_log(env, segment_bytes=1000)

        log.restart_at(42)
        assert (log.start_offset, log.end_offset, bases(log), log.epoch_starts) == (42, 42, [], [])
        log.append_as_is(a_batch(42, 7))
        await log.flush()
        await log.stop()

        again = MetadataLog.open(env, "/data", log_config())
        assert (again.start_offset, again.end_offset, again.epoch_starts) == (42, 44, [EpochStart(7, 42)])

    asyncio.run(story())


def test_trimmed_segments_that_a_loss_of_power_brings_back_cost_nothing_of_what_comes_after() -> None:
    async def story() -> None:
        env = an_env()
        log = a_log(env, segment_bytes=500)  # a segment for each batch
        await log.flush()
        folder = "/data/__cluster_metadata-0"
        env.disk.open(f"{folder}/{6:020}-{2:010}.checkpoint", create=True).close()
        for suffix in (".log", ".index", ".timeindex"):  # the first is there again, the second is not
            env.disk.remove(f"{folder}/{2:020}{suffix}")

        again = MetadataLog.open(env, "/data", log_config())
        assert (again.start_offset, again.end_offset, bases(again)) == (6, 10, [6, 8])

    asyncio.run(story())
