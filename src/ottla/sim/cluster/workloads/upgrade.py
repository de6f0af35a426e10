"""A rolling upgrade: nodes that run earlier software are stopped one by one and come back with that of today.

Meanwhile somebody is impatient and asks for the newest features before all nodes can have them, which nobody may grant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import ClassVar, Final

from ottla.broker.software import THIS
from ottla.model.errors import ErrorCode
from ottla.sim.cluster.logs import ReplicaLogs
from ottla.sim.cluster.member import Member
from ottla.sim.cluster.releases import TODAY
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process
from ottla.sim.workload.client import NoAnswer

UPDATE_FEATURES: Final = 57
_UPGRADE: Final = 1


class Upgrade(Workload):
    name: ClassVar[str] = "upgrade"

    def start(self) -> None:
        self._client = self.cast.client("upgrader")
        self._random = self.cast.random(self.name)
        self._running: Process[None] | None = None
        self._is_granted = False
        if self.cast.plan.release.is_old:
            self._running = self.cast.start(self._client, self._run)

    async def _run(self) -> None:
        old = self._random.sample(self.cast.members, len(self.cast.members))
        pace = self._random.choice((1.0, 4.0))
        while not self._is_granted:
            if old and not self._client.stopping:
                await self._client.pause(0.5 * pace, 2.0 * pace)
            if old:
                self._replace_software(old.pop())
            if not old or self._random.random() < 0.3:
                await self._client.pause(0.0, 1.0)
                await self._upgrade_features()

    def _replace_software(self, member: Member) -> None:
        member.software = THIS
        self._client.oracle.counts["software replaced"] += 1
        self.cast.world.trace.note(member.host.name, "workload", f"{member.host.name} gets the software of today")
        member.stop()

    async def _upgrade_features(self) -> None:
        updates = [
            {"feature": name, "max_version_level": level, "upgrade_type": _UPGRADE} for name, level in TODAY.items()
        ]
        request = {"timeout": timedelta(seconds=3), "feature_updates": updates, "validate_only": False}
        try:
            answer = await self._client.ask_any(UPDATE_FEATURES, 2, request)
        except NoAnswer:
            await self._client.refresh()
            return
        code: ErrorCode = answer.error_code
        self._client.oracle.counts[f"upgrade of features: {code.name}"] += 1
        if code is ErrorCode.none:
            self._is_granted = True
            behind = [member.id for member in self.cast.members if member.software is not THIS]
            if behind:
                self._client.oracle.complain(f"{TODAY} were granted, although nodes {behind} do not support them")

    async def finish(self) -> None:
        self._client.stopping = True
        if self._running is not None:
            await self._running
            while not all(member.node is not None for member in self.cast.members):
                await asyncio.sleep(0.1)

    def unfinished(self) -> list[str]:
        return [self._running.name] if self._running is not None and not self._running.done() else []

    def verdict(self, logs: ReplicaLogs) -> Iterator[str]:
        image = self._client.oracle.image
        if self._is_granted and image is not None:
            for name, level in TODAY.items():
                if image.features.get(name) != level:
                    yield f"{name} is {image.features.get(name)}, although {level} was acknowledged"
