"""Requests that meet a transaction whose markers are being written.

Kafka tells CONCURRENT_TRANSACTIONS at once, and clients come again after 20 ms or more. Markers take less than that
mostly: the request is kept for a moment, and decided as soon as the last of them is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.coordinator.machine import Outcome
from ottla.coordinator.shard import Haste
from ottla.coordinator.told import Told
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition

_NONE: Final = ErrorCode.none

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.coordinator.txn.machine import TxnMachine


def add_partitions(
    node: Node, transactional_id: str, producer: ProducerEpoch, partitions: Sequence[TopicPartition], version: int
) -> asyncio.Future[ErrorCode]:
    """What the coordinator, which is here, says to it; CONCURRENT_TRANSACTIONS only if markers take long."""
    done: asyncio.Future[ErrorCode] = node.env.loop.create_future()

    def tell(told: Told[ErrorCode]) -> None:
        if done.done():
            return
        error = told.exception()
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(told.result())

    ask_to_add(node, transactional_id, producer, partitions, version).add_done_callback(tell)
    return done


def ask_to_add(
    node: Node, transactional_id: str, producer: ProducerEpoch, partitions: Sequence[TopicPartition], version: int
) -> Told[ErrorCode]:
    """The same for who does not wait in a task."""

    def operation(txns: TxnMachine) -> Outcome[ErrorCode]:
        return txns.add_partitions(transactional_id, producer, partitions, version)

    asked = node.txns.ask(transactional_id, operation, Haste.WHEN_CALM)
    if asked.replied is _NONE:
        return asked
    return _Patient(node, transactional_id, operation, asked).told


class _Patient:
    def __init__(
        self,
        node: Node,
        transactional_id: str,
        operation: Callable[[TxnMachine], Outcome[ErrorCode]],
        asked: Told[ErrorCode],
    ) -> None:
        self.told: Told[ErrorCode] = Told()
        self._node = node
        self._transactional_id = transactional_id
        self._operation = operation
        self._ends_at: float | None = None
        asked.add_done_callback(self._heard)

    def _ask(self) -> None:
        if self.told.done():
            return  # the client has gone
        asked = self._node.txns.ask(self._transactional_id, self._operation, Haste.WHEN_CALM)
        asked.add_done_callback(self._heard)

    def _heard(self, asked: Told[ErrorCode]) -> None:
        error = asked.exception()
        if error is not None:
            self.told.tell(None, error)
            return
        code = asked.result()
        if code is not ErrorCode.concurrent_transactions or self.told.done() or not self._waits():
            self.told.tell(code, None)

    def _waits(self) -> bool:
        loop, config = self._node.env.loop, self._node.config
        if self._ends_at is None:
            self._ends_at = loop.time() + config.get_int("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        left_s = self._ends_at - loop.time()
        return left_s > 0 and self._node.txns.markers.when_written(self._transactional_id, self._ask, left_s * 1000)
