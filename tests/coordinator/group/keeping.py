"""A group coordinator on one partition of a simulated machine, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.log.given import Machine
from tests.replica.given import leader

from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.offsets import Commit, Member
from ottla.coordinator.machine import Outcome
from ottla.coordinator.runtime import Runtime
from ottla.env.timers import TimerWheel
from ottla.metadata.image import EMPTY_IMAGE
from ottla.model.config import BrokerConfig, broker_config, standalone
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Partition

R = TypeVar("R")


def config(**settings: object) -> BrokerConfig:
    given = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return broker_config(standalone("/data", 9092) | given)


class Keeper:
    def __init__(self, machine: Machine, partition: Partition, settings: BrokerConfig) -> None:
        env = machine.env
        self.machine = machine
        self.partition = partition
        self.events: list[object] = []
        self.image = EMPTY_IMAGE
        self.runtime: Runtime[GroupMachine] = Runtime(
            env,
            TimerWheel(env.loop),
            lambda shard: GroupMachine(shard, env, lambda: settings, lambda: self.image, self.events.append),
        )
        self.runtime.watch(partition)

    @property
    def groups(self) -> GroupMachine:
        return self.runtime.shard(0).machine

    def write(self, operation: Callable[[GroupMachine], Outcome[R]]) -> asyncio.Future[R]:
        return self.runtime.shard(0).write(operation)

    def commit(
        self, group: str, offset: int, topic: str = "orders", partition: int = 0, **more: Any
    ) -> asyncio.Future[ErrorCode | list[ErrorCode]]:
        """`retention_ms`, `member`; what else is given belongs to the offset."""
        retention_ms = more.pop("retention_ms", None)
        member = more.pop("member", Member(group))
        row = Commit(topic, partition, offset, **more)
        return self.write(lambda machine: machine.offsets.commit(member, [row], 9, retention_ms))

    def offsets(self, group: str, *, stable: bool = False) -> dict[tuple[str, int], int]:
        found = self.groups.offsets.fetch_all(group, stable=stable)
        return {(topic, row.partition): row.offset for topic, rows in found.items() for row in rows}


def tell(
    machine: Machine,
    story: Callable[[Keeper], Coroutine[Any, Any, None]],
    partition: Partition | None = None,
    settings: BrokerConfig | None = None,
    **overrides: object,
) -> Partition:
    """Runs a story once the coordinator is loaded; the same partition can be given to the next one."""
    place = partition if partition is not None else leader(machine, **overrides)  # type: ignore[arg-type]

    async def run() -> None:
        keeper = Keeper(machine, place, settings or config())
        await keeper.runtime.settle()
        await story(keeper)
        place.listeners.remove(keeper.runtime)
        await keeper.runtime.stop()

    machine.wait_for(run)
    return place
