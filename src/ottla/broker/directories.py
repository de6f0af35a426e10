"""Tells the controller which log dir a partition lies in, and, by heartbeats, which have failed (KIP-858)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final
from uuid import UUID

from ottla.env.tasks import Tasks
from ottla.metadata.controller.requests import AssignReplicasToDirs, ReplicaDirectory
from ottla.metadata.controller_port import ControllerPort
from ottla.model.errors import ErrorCode, KafkaError

_log = logging.getLogger("ottla.broker")
_AGAIN_AFTER_S: Final = 5.0
_AT_ONCE: Final = 2250  # as many as Kafka puts into a request


class Directories:
    """One message after the other: a directory that fails is told of after the partitions that were put into it."""

    def __init__(
        self,
        controller: ControllerPort,
        node_id: int,
        broker_epoch: Callable[[], int],
        tell_failed: Callable[[Iterable[UUID]], None],
    ) -> None:
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._tell_failed = tell_failed
        self._assigned: dict[tuple[UUID, int], UUID] = {}
        self._failed: list[UUID] = []
        self._is_telling = False
        self._all_told = asyncio.Event()
        self._all_told.set()
        self._again: asyncio.TimerHandle | None = None
        self._tasks = Tasks(lambda error: _log.error("the controller could not be told of log dirs: %s", error))

    def assign(self, topic_id: UUID, partition: int, directory: UUID) -> None:
        self._assigned[topic_id, partition] = directory
        self._all_told.clear()
        self._tell()

    async def assign_surely(self, topic_id: UUID, partition: int, directory: UUID) -> bool:
        """Whether the controller has taken note."""
        told = (ReplicaDirectory(topic_id, partition, directory),)
        ((_, error),) = await self._controller.submit(AssignReplicasToDirs(self._node_id, self._broker_epoch(), told))
        return error.code is ErrorCode.none

    def fail(self, directory: UUID) -> None:
        self._failed.append(directory)
        self._all_told.clear()
        self._tell()

    def _tell(self) -> None:
        if not self._is_telling:
            self._is_telling = True
            self._tasks.start(self._tell_all(), "tell of log dirs")

    async def _tell_all(self) -> None:
        try:
            while self._assigned:
                await self._tell_assignments()
            failed, self._failed = self._failed, []
            if failed:
                self._tell_failed(failed)
            self._all_told.set()
        except KafkaError as error:
            level = logging.ERROR
            if error.code is ErrorCode.unsupported_version:
                level = logging.DEBUG  # the cluster knows of no directories before its metadata.version is upgraded
                self._all_told.set()
            _log.log(level, "the controller could not be told of log dirs, it is tried again: %s", error)
            self._again = asyncio.get_running_loop().call_later(_AGAIN_AFTER_S, self._tell)
        finally:
            self._is_telling = False

    async def _tell_assignments(self) -> None:
        told = dict(islice(self._assigned.items(), _AT_ONCE))
        rows = tuple(ReplicaDirectory(*key, directory) for key, directory in told.items())
        await self._controller.submit(AssignReplicasToDirs(self._node_id, self._broker_epoch(), rows))
        for key, directory in told.items():
            if self._assigned.get(key) == directory:  # else there is something newer to tell
                del self._assigned[key]

    async def settle(self) -> None:
        """Until all is told: before a broker is unfenced the controller must know what it has lost."""
        await self._all_told.wait()

    async def stop(self) -> None:
        if self._again is not None:
            self._again.cancel()
        await self._tasks.stop()
