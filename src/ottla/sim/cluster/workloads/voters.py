"""Controllers become voters and cease to be, one at a time, where the quorum can change.

What was acknowledged stays so: each controller's place is a register with one writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar, Final, NamedTuple

from ottla.model.errors import ErrorCode
from ottla.raft.voters import NO_DIRECTORY, ReplicaKey
from ottla.sim.cluster.logs import ReplicaLogs
from ottla.sim.cluster.member import CLUSTER_ID, CONTROLLER_PORT, host_name
from ottla.sim.cluster.plan import CONTROLLER
from ottla.sim.cluster.wanted import Wanted
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process
from ottla.sim.workload.client import NoAnswer

DESCRIBE_QUORUM, ADD_VOTER, REMOVE_VOTER = 55, 80, 81
_FEWEST: Final = 2
_TIMEOUT: Final = timedelta(seconds=3)


class _Quorum(NamedTuple):
    voters: list[ReplicaKey]
    observers: list[ReplicaKey]


class Voters(Workload):
    name: ClassVar[str] = "voters"

    def start(self) -> None:
        self._client = self.cast.client("quorum-admin")
        self._random = self.cast.random(self.name)
        self._wanted: dict[ReplicaKey, Wanted] = {}
        self._running: Process[None] | None = None
        if self.cast.plan.shape.is_dynamic:
            self._running = self.cast.start(self._client, self._run)

    async def _run(self) -> None:
        while not self._client.stopping:
            await self._client.pause(1.0, 6.0)
            quorum = await self._describe()
            if quorum is None:
                await self._client.refresh()
                continue
            controllers = self.cast.plan.shape.controllers
            others = [key for key in quorum.observers if key.id in controllers and key.directory_id != NO_DIRECTORY]
            if others and (len(quorum.voters) <= _FEWEST or self._random.random() < 0.5):
                await self._add(self._random.choice(others))
            elif len(quorum.voters) > _FEWEST:
                await self._remove(self._random.choice(quorum.voters))

    async def _ask(self, key: int, version: int, values: dict[str, Any]) -> Any | None:
        try:
            return await self._client.ask_any(key, version, values)
        except NoAnswer:
            return None

    async def _describe(self) -> _Quorum | None:
        request = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
        answer = await self._ask(DESCRIBE_QUORUM, 2, request)
        if answer is None or answer.error_code is not ErrorCode.none:
            return None
        row = answer.topics[0].partitions[0]
        if row.error_code is not ErrorCode.none:
            return None
        voters, observers = (
            [ReplicaKey(int(each.replica_id), each.replica_directory_id or NO_DIRECTORY) for each in replicas]
            for replicas in (row.current_voters, row.observers)
        )
        return _Quorum(voters, observers)

    async def _add(self, key: ReplicaKey) -> None:
        listener = {"name": CONTROLLER, "host": host_name(key.id), "port": CONTROLLER_PORT}
        about = {"timeout": _TIMEOUT, "listeners": [listener], "ack_when_committed": True}
        await self._change(ADD_VOTER, 1, key, about, is_voter=True)

    async def _remove(self, key: ReplicaKey) -> None:
        await self._change(REMOVE_VOTER, 0, key, {}, is_voter=False)

    async def _change(self, api: int, version: int, key: ReplicaKey, about: dict[str, Any], *, is_voter: bool) -> None:
        wanted = self._wanted.setdefault(key, Wanted(not is_voter))
        wanted.asks(is_voter)
        request = {"cluster_id": CLUSTER_ID, "voter_id": key.id, "voter_directory_id": key.directory_id, **about}
        answer = await self._ask(api, version, request)
        if answer is None:
            wanted.unanswered(is_voter)
            await self._client.refresh()
            return
        code: ErrorCode = answer.error_code
        self._client.oracle.counts[f"{'add' if is_voter else 'remove'} voter: {code.name}"] += 1
        if code is ErrorCode.none:
            wanted.acknowledged(is_voter)

    async def finish(self) -> None:
        self._client.stopping = True
        if self._running is not None:
            await self._running
            while not self._agree():
                await asyncio.sleep(0.1)

    def _sets(self) -> list[frozenset[ReplicaKey]]:
        nodes = [member.node for member in self.cast.members if member.is_controller]
        return [frozenset(node.raft.quorum.replica.log.controls.voters.keys) for node in nodes if node is not None]

    def _agree(self) -> bool:
        return len(set(self._sets())) == 1

    def unfinished(self) -> list[str]:
        return [self._running.name] if self._running is not None and not self._running.done() else []

    def verdict(self, logs: ReplicaLogs) -> Iterator[str]:
        for voters in self._sets()[:1]:
            for key, wanted in self._wanted.items():
                if not wanted.allows(key in voters):
                    yield f"{key} is {'a' if key in voters else 'no'} voter, although the opposite was acknowledged"
