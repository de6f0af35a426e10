"""Single stories of a node and a client on virtual time, each about one promise."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import pytest

from ottla.model.errors import ErrorCode
from ottla.record.batch import Codec
from ottla.sim.checkers import check
from ottla.sim.history import History
from ottla.sim.log_files import PartitionId
from ottla.sim.node import PORT, SimNode
from ottla.sim.workload.batches import Batch, Values
from ottla.sim.workload.client import INIT_PRODUCER_ID, Client, KnownTopic
from ottla.sim.workload.consumer import Consumer
from ottla.sim.workload.producers import send
from ottla.sim.workload.topics import TopicKeeper
from ottla.sim.world import World

_A_MINUTE = timedelta(minutes=1)


class Stage:
    """A node, a client that makes topics and sends batches, and the history of both."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history = History(world.loop.time)
        self.node = SimNode(world, self.history, {"log.flush.offset.checkpoint.interval.ms": "100"})
        self.node.restart_after_s = (0.01, 0.02)
        env = world.host("client").env
        self.client = Client("client", env, world.random("client"), self.history, (self.node.host.name, PORT))
        self.keeper = TopicKeeper(self.client)
        self._values = Values("client", world.random("values"), 13)

    async def topic(self, configs: Mapping[str, str], name: str = "topic") -> KnownTopic:
        return await self.keeper.create_surely(name, 1, configs)

    def batch(self, topic: KnownTopic, producer_id: int = -1, sequence: int = -1, size: int | None = None) -> Batch:
        batch = self._values.batch(topic.name, PartitionId(topic.id, 0), self.client.env.clock.now_ms())
        if size is not None:
            batch.values, batch.codec = (batch.values[0].partition(b" ")[0].ljust(size, b" "),), Codec.NONE
        if producer_id >= 0:
            batch.identity = (producer_id, 0, sequence)
        return batch

    async def send(self, batch: Batch) -> ErrorCode | None:
        (code,) = await send(self.client, 13, -1, (batch,))
        return code

    async def send_until_acknowledged(self, batch: Batch) -> None:
        while await self.send(batch) is not ErrorCode.none:
            await asyncio.sleep(0.01)

    async def producer_id(self) -> int:
        request = {"transactional_id": None, "transaction_timeout": _A_MINUTE}
        answer, _ = await self.client.ask(INIT_PRODUCER_ID, 4, request)
        return int(answer.producer_id)

    async def restart(self) -> None:
        self.node.kill()
        await self.node.serving()

    async def stop_and_lose_power(self) -> None:
        self.node.stop()
        while self.node.host.is_up:
            await asyncio.sleep(0.001)
        self.node.power_loss()
        self.node.power_loss()  # again: what is left of the first must still be known
        await self.node.serving()


def tell(story: Callable[[Stage], Awaitable[None]], seed: int) -> list[str]:
    """Runs a story to its end, then a clean stop and a last look; gives what the checkers have to say."""
    with World(seed) as world:
        stage = Stage(world)

        async def whole() -> None:
            nursing = asyncio.ensure_future(stage.node.keep_running())
            await stage.node.serving()
            await story(stage)
            await stage.node.serving()
            stage.node.stop_for_good()
            await nursing

        world.run(whole(), limit_s=600)
        return check(stage.history)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_kill_minus_nine_without_any_sync(seed: int) -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({"internal.segment.bytes": "500"})
        for _ in range(5):
            for _ in range(10):
                assert await stage.send(stage.batch(topic)) is ErrorCode.none
            await stage.restart()

    assert tell(story, seed) == []


@pytest.mark.parametrize("seed", range(10))
def test_a_retry_after_a_kill_is_not_acknowledged_before_the_record_is_synced(seed: int) -> None:
    """The batch is only in the page cache, and a loss of power would take it: flush.messages=1 promises otherwise."""

    async def story(stage: Stage) -> None:
        topic = await stage.topic({"flush.messages": "1"})
        producer_id = await stage.producer_id()
        first = stage.batch(topic, producer_id, 0)
        await stage.send_until_acknowledged(first)
        # given a batch that is appended and not synced when the process dies
        stage.node.slow_down(1000.0)
        second = stage.batch(topic, producer_id, len(first.values))
        sending = asyncio.ensure_future(stage.send(second))
        await asyncio.sleep(0.5)
        stage.node.kill()
        assert await sending is None
        # when it is sent again, acknowledged, and then the power goes
        await stage.send_until_acknowledged(second)
        stage.node.power_loss()

    assert tell(story, seed) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_new_node_survives_the_loss_of_power_folder_and_all(seed: int) -> None:
    async def story(stage: Stage) -> None:
        await stage.topic({})
        stage.node.power_loss()
        await stage.node.serving()
        assert stage.node.node is not None
        assert stage.node.node.image.topic("topic") is not None

    assert tell(story, seed) == []


@pytest.mark.parametrize("file", ["*.log", "*.index", "*.timeindex"])
def test_a_segment_that_could_not_be_begun_does_not_cost_what_comes_after_it(file: str) -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({"internal.segment.bytes": "3000"})
        stage.node.disk.fail(file, errno.EIO, ("create",), times=1)
        for _ in range(30):  # some larger, some smaller than what is left in the segment
            await stage.send(stage.batch(topic))
        await stage.restart()
        for _ in range(5):
            await stage.send_until_acknowledged(stage.batch(topic))
        await stage.restart()

    for seed in range(5):
        assert tell(story, seed) == []


@pytest.mark.parametrize("seed", range(3))
def test_records_of_a_deleted_topic_do_not_come_back_in_its_namesake(seed: int) -> None:
    async def story(stage: Stage) -> None:
        old = await stage.topic({}, "again")
        await stage.send_until_acknowledged(stage.batch(old))
        # given a folder that keeps its name although its topic is gone
        stage.node.disk.fail("/data/again-0", errno.EIO, ("rename",), times=1)
        assert await stage.keeper.delete(old)
        assert stage.node.disk.failures["rename"] == 1
        # when a topic of that name is made
        new = await stage.topic({}, "again")
        await stage.send_until_acknowledged(stage.batch(new))
        await stage.restart()

    assert tell(story, seed) == []


@pytest.mark.parametrize("seed", range(10))
def test_what_was_cut_off_after_a_failed_write_stays_cut_off(seed: int) -> None:
    """In a segment that is flushed and closed, and after a clean stop, nobody would look again."""

    async def story(stage: Stage) -> None:
        topic = await stage.topic({"internal.segment.bytes": "3000", "flush.messages": "1"})
        await stage.send_until_acknowledged(stage.batch(topic, size=100))
        await asyncio.sleep(1)  # until the recovery point says that it is flushed
        stage.node.disk.fail("*.log", errno.ENOSPC, ("write",), times=1)
        assert await stage.send(stage.batch(topic, size=100)) is ErrorCode.kafka_storage_error
        large = stage.batch(topic, size=3000)  # which goes into the next segment
        assert await stage.send(large) is ErrorCode.kafka_storage_error
        await stage.restart()
        await stage.send_until_acknowledged(large)
        await stage.stop_and_lose_power()

    assert tell(story, seed) == []


def test_a_long_poll_whose_data_cannot_be_read_is_answered_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({})
        await stage.send_until_acknowledged(stage.batch(topic))
        consumer = Consumer(
            stage.client, 12, sessions=False, committed=False, max_wait_s=2, max_bytes=1 << 20, min_bytes=1 << 20
        )
        consumer.assign([topic])
        polling = asyncio.ensure_future(consumer.poll())
        await asyncio.sleep(1)
        stage.node.disk.fail("*.log", errno.EIO, ("read",))
        assert await polling is False
        assert stage.history.counts["fetch: kafka_storage_error"] == 1
        stage.node.disk.heal()

    assert tell(story, 0) == []


@pytest.mark.parametrize("seed", range(10))
def test_whose_a_folder_is_stays_known_after_a_kill_a_clean_stop_and_a_loss_of_power(seed: int) -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({})
        await stage.send_until_acknowledged(stage.batch(topic))
        await stage.restart()
        await stage.stop_and_lose_power()

    assert tell(story, seed) == []
