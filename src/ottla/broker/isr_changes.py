"""Changes of in-sync replicas on their way to the controller: one request at a time, with all that have come up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.metadata.controller.requests import AlteredPartition, AlterPartition, PartitionAlteration
from ottla.metadata.controller_port import ControllerPort
from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.replica.isr import IsrChange
from ottla.replica.partition import Partition

_log = logging.getLogger("ottla.broker")
_AGAIN_S: Final = 0.05  # as Kafka, after a refusal as a whole


class IsrChanges:
    def __init__(self, env: Env, controller: ControllerPort, node_id: int, broker_epoch: Callable[[], int]) -> None:
        self.expansions = self.shrinks = self.failures = 0
        self._env = env
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[Partition, IsrChange] = {}
        self._is_sending = False
        self._tasks = Tasks(lambda error: _log.error("in-sync replicas could not be told: %r", error))

    def submit(self, partition: Partition, change: IsrChange) -> None:
        self._waiting[partition] = change
        if not self._is_sending:
            self._is_sending = True
            self._tasks.start(self._send_all(), "alter partitions")

    async def stop(self) -> None:
        self._waiting.clear()
        await self._tasks.stop()

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)  # all that come up in this turn
                changes, self._waiting = self._waiting, {}
                if not await self._send(changes):
                    await asyncio.sleep(_AGAIN_S)
        finally:
            self._is_sending = False

    async def _send(self, changes: dict[Partition, IsrChange]) -> bool:
        proposals = tuple(
            PartitionAlteration(
                partition.topic_id, partition.key.partition, change.leader_epoch, change.isr, change.partition_epoch
            )
            for partition, change in changes.items()
        )
        try:
            answers = await self._controller.submit(AlterPartition(self._node_id, self._broker_epoch(), proposals))
        except (KafkaError, OttlaError) as error:
            _log.info("%d changes of in-sync replicas are tried again: %s", len(changes), error)
            for partition, change in changes.items():
                if _is_current(partition, change):
                    self._waiting.setdefault(partition, change)
            return False
        found = {(answer.topic_id, answer.partition): answer for answer in answers}
        for partition, change in changes.items():
            answer = found.get((partition.topic_id, partition.key.partition))
            if answer is None:
                self._waiting.setdefault(partition, change)
            else:
                self._answered(partition, change, answer)
        return True

    def _answered(self, partition: Partition, change: IsrChange, answer: AlteredPartition) -> None:
        if answer.error.code is not ErrorCode.none:
            _log.debug("%s: the controller refuses %s: %s", partition.key, change, answer.error)
        partition.isr_answered(change, answer)  # which the metadata may have overtaken
        if answer.error.code is not ErrorCode.none:
            self.failures += 1
        elif change.is_expansion:
            self.expansions += 1
        else:
            self.shrinks += 1


def _is_current(partition: Partition, change: IsrChange) -> bool:
    return partition.leading is not None and partition.leading.isr.change is change
