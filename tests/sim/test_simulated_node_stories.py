"""Single stories of a node and a client on virtual time, each about one promise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import pytest

from ottla.model.errors import ErrorCode
from ottla.sim.checkers import check
from ottla.sim.history import History
from ottla.sim.log_files import PartitionId
from ottla.sim.node import PORT, SimNode
from ottla.sim.workload.batches import Batch, Values
from ottla.sim.workload.client import INIT_PRODUCER_ID, Client, KnownTopic
from ottla.sim.workload.producers import send
from ottla.sim.workload.topics import TopicKeeper
from ottla.sim.world import World


class Stage:
    """A node, a client that makes topics and sends batches, and the history of both."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.history = History(world.loop.time)
        self.node = SimNode(world, self.history, {})
        self.node.restart_after_s = (0.01, 0.02)
        env = world.host("client").env
        self.client = Client("client", env, world.random("client"), self.history, (self.node.host.name, PORT))
        self.keeper = TopicKeeper(self.client)
        self._values = Values("client", world.random("values"), 13)

    async def topic(self, configs: Mapping[str, str], name: str = "topic") -> KnownTopic:
        return await self.keeper.create_surely(name, 1, configs)

    def batch(self, topic: KnownTopic, producer_id: int = -1, sequence: int = -1) -> Batch:
        batch = self._values.batch(topic.name, PartitionId(topic.id, 0), self.client.env.clock.now_ms())
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

    async def is_down(self) -> None:
        while self.node.host.is_up:
            await asyncio.sleep(0.001)


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


from datetime import timedelta  # noqa: E402

_A_MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_kill_minus_nine_without_any_sync(seed: int) -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({"internal.segment.bytes": "500"})
        for _ in range(5):
            for _ in range(10):
                assert await stage.send(stage.batch(topic)) is ErrorCode.none
            stage.node.kill()
            await stage.node.serving()

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
