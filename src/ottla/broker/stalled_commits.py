"""Looks for groups that are alive and do not get on: something to read, and nothing committed for a while."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from ottla.broker.group_coordinator import GroupCoordinator
from ottla.broker.replicas import Replicas
from ottla.coordinator.group.offset_records import offset_in
from ottla.env.breath import Breath
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.env.timers import TimerWheel
from ottla.model.names import TopicPartition

_log = logging.getLogger("ottla.coordinator.group")
LOOK_EVERY_MS: Final = 20_000
STALLED_AFTER_MS: Final = 60_000


class StalledCommits:
    """Tells the history. Only partitions that have a replica here can be judged."""

    def __init__(
        self,
        env: Env,
        timers: TimerWheel,
        groups: GroupCoordinator,
        replicas: Replicas,
        look_every_ms: int = LOOK_EVERY_MS,
        stalled_after_ms: int = STALLED_AFTER_MS,
    ) -> None:
        self._env = env
        self._timers = timers
        self._groups = groups
        self._replicas = replicas
        self._look_every_ms = look_every_ms
        self._stalled_after_ms = stalled_after_ms
        self._behind: dict[str, dict[TopicPartition, tuple[int, int]]] = {}  # by group: committed offset, since when
        self._tasks = Tasks(lambda error: _log.error("stalled commits could not be found: %s", error, exc_info=error))

    def start(self) -> None:
        self._timers.after(self._look_every_ms, self._begin)

    def _begin(self) -> None:
        self._tasks.start(self._look(), "stalled commits")

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _look(self) -> None:
        breath = Breath(self._env.clock)
        behind: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        for group_id, places in self._groups_behind():
            before, now_ms = self._behind.get(group_id, {}), self._env.clock.now_ms()
            known = {}
            for place, (offset, _) in places.items():
                was, since = before.get(place, (offset, now_ms))
                known[place] = (offset, since if was == offset else now_ms)
            behind[group_id] = known
            stalled = {
                place: since for place, (_, since) in known.items() if now_ms - since >= self._stalled_after_ms
            }  # fmt: skip
            if stalled:
                lag = [f"{place} by {places[place][1]}" for place in sorted(stalled)]
                self._groups.history.stalled(group_id, min(stalled.values()), lag)
            await breath.take()
        self._behind = behind
        self.start()

    def _groups_behind(self) -> Iterator[tuple[str, dict[TopicPartition, tuple[int, int]]]]:
        """Those with members: by partition the committed offset, and by how much it is behind."""
        for shard in self._groups.runtime.active:
            machine = shard.machine
            for group_id in machine.offsets.table.groups():
                if not machine.owners.size(group_id):
                    continue
                places = {}
                for (topic, partition), value in machine.offsets.table.stored(group_id):
                    found = self._replicas.by_name.get((topic, partition))
                    offset = offset_in(value)
                    if found is not None and found.high_watermark > offset:
                        places[TopicPartition(topic, partition)] = (offset, found.high_watermark - offset)
                yield group_id, places
