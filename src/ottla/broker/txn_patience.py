"""Requests that meet a transaction whose markers are being written.

Kafka tells CONCURRENT_TRANSACTIONS at once, and clients come again after 20 ms or more. Markers take less than that
mostly: the request is kept for a moment, and decided as soon as the last of them is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.coordinator.machine import Outcome
from ottla.coordinator.txn.machine import TxnMachine
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.node import Node


def add_partitions(
    node: Node, transactional_id: str, producer: ProducerEpoch, partitions: Sequence[TopicPartition], version: int
) -> asyncio.Future[ErrorCode]:
    """What the coordinator, which is here, says to it; CONCURRENT_TRANSACTIONS only if markers take long."""
    return _Patient(
        node, transactional_id, lambda txns: txns.add_partitions(transactional_id, producer, partitions, version)
    ).told


class _Patient:
    def __init__(
        self, node: Node, transactional_id: str, operation: Callable[[TxnMachine], Outcome[ErrorCode]]
    ) -> None:
        self.told: asyncio.Future[ErrorCode] = node.env.loop.create_future()
        self._node = node
        self._transactional_id = transactional_id
        self._operation = operation
        self._ends_at: float | None = None
        self._ask()

    def _ask(self) -> None:
        if self.told.done():
            return  # the client has gone
        asked = self._node.txns.submit(self._transactional_id, self._operation)
        if asked.done():
            self._heard(asked)
        else:
            asked.add_done_callback(self._heard)

    def _heard(self, asked: asyncio.Future[ErrorCode]) -> None:
        if self.told.done():
            return
        error = asked.exception()
        if error is not None:
            self.told.set_exception(error)
            self.told.exception()  # whoever asked may have gone
            return
        code = asked.result()
        if code is not ErrorCode.concurrent_transactions or not self._waits():
            self.told.set_result(code)

    def _waits(self) -> bool:
        loop, config = self._node.env.loop, self._node.config
        if self._ends_at is None:
            self._ends_at = loop.time() + config.get_int("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        left_s = self._ends_at - loop.time()
        return left_s > 0 and self._node.txns.markers.when_written(self._transactional_id, self._ask, left_s * 1000)
