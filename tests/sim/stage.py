"""A node, a client and the history of both on virtual time: where single stories are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from ottla.model.errors import ErrorCode
from ottla.record.batch import Codec
from ottla.sim.checkers import check
from ottla.sim.history import History
from ottla.sim.log_files import PartitionId
from ottla.sim.node import PORT, SimNode
from ottla.sim.workload.batches import Batch, Values
from ottla.sim.workload.client import INIT_PRODUCER_ID, Client, KnownTopic
from ottla.sim.workload.producers import send
from ottla.sim.workload.topics import TopicKeeper
from ottla.sim.world import World

_A_MINUTE = timedelta(minutes=1)


class Stage:
    """A node, a client that makes topics and sends batches, and the history of both."""

    def __init__(self, world: World, settings: Mapping[str, str]) -> None:
        self.world = world
        self.history = History(world.loop.time)
        self.node = SimNode(world, self.history, {"log.flush.offset.checkpoint.interval.ms": "100", **settings})
        self.node.restart_after_s = (0.01, 0.02)
        env = world.host("client").env
        self.client = Client("client", env, world.random("client"), self.history, (self.node.host.name, PORT))
        self.keeper = TopicKeeper(self.client)
        self._values = Values("client", world.random("values"), 13)

    async def topic(self, configs: Mapping[str, str], name: str = "topic", partitions: int = 1) -> KnownTopic:
        return await self.keeper.create_surely(name, partitions, configs)

    def batch(
        self,
        topic: KnownTopic,
        producer_id: int = -1,
        sequence: int = -1,
        size: int | None = None,
        partition: int = 0,
    ) -> Batch:
        batch = self._values.batch(topic.name, PartitionId(topic.id, partition), self.client.env.clock.now_ms())
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


def tell(story: Callable[[Stage], Awaitable[None]], seed: int, **settings: str) -> list[str]:
    """Runs a story to its end, then a clean stop and a last look; gives what the checkers have to say."""
    with World(seed) as world:
        stage = Stage(world, {name.replace("_", "."): value for name, value in settings.items()})

        async def whole() -> None:
            nursing = asyncio.ensure_future(stage.node.keep_running())
            await stage.node.serving()
            await story(stage)
            await stage.node.serving()
            stage.node.stop_for_good()
            await nursing

        world.run(whole(), limit_s=600)
        return check(stage.history)
