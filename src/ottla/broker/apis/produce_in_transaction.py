"""Batches that begin a transaction on their partition: the transaction's coordinator is asked before they are appended.

What versions of Produce mean for it: up to 10 a client knows no TRANSACTION_ABORTABLE, from 12 on it leaves it to the
broker to add the partition to the transaction (KIP-890).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.context import Context
from ottla.broker.txn_partitions import Client, Question
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.env.ports import Buffer
from ottla.log.producers import Origin, Verification
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.record.batch import HEADER_SIZE, BatchHeader, parse_header
from ottla.replica.partition import Appended, Partition

_NONE: Final = ErrorCode.none
_ABORTABLE_FROM: Final = 11
_ADDS_FROM: Final = 12
_RETRIED: Final = frozenset(
    {
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""Producers do not expect them here, and would not come again."""


class _Kept(NamedTuple):
    partition: Partition
    batch: bytes
    result: asyncio.Future[Appended]


def _pass_on(result: asyncio.Future[Appended], appended: asyncio.Future[Appended]) -> None:
    result.set_result(appended.result())


class InTransaction:
    """The transactional batches of one request, all of one producer."""

    def __init__(self, context: Context, transactional_id: str, acks: int, producer: ProducerEpoch) -> None:
        version = context.header.version
        self._context = context
        self._acks = acks
        client = Client.OF_OLD if version < _ABORTABLE_FROM else Client.VERIFIED
        self._question = Question(transactional_id, producer, Client.ADDED if version >= _ADDS_FROM else client)
        self._kept: list[_Kept] = []

    def add(
        self, partition: Partition, batch: Buffer, header: BatchHeader
    ) -> Appended | asyncio.Future[Appended] | None:
        """What became, or is to become, of a batch that begins it; None if it can be appended as any other."""
        question, key = self._question, partition.key
        node = self._context.node
        begun = question.add(partition, header.base_sequence, node.env.clock.now_ms())
        if key in question.codes:
            return self._refused(key)
        can_be_known = begun is not None and not question.client.adds
        if can_be_known and node.txn_partitions.knows(question.transactional_id, question.producer, key):
            assert begun is not None
            question.is_answered(partition, begun)
            return None
        kept = _Kept(partition, bytes(batch), node.env.loop.create_future())
        self._kept.append(kept)
        return kept.result

    def start(self) -> None:
        if self._kept:
            self._context.node.txn_partitions.start(self._question, self._answered)

    def _answered(self) -> None:
        version = self._context.header.version
        for partition, batch, result in self._kept:
            if partition.key in self._question.codes:
                result.set_result(self._refused(partition.key))
                continue
            appended = partition.append(batch, self._acks, Origin.CLIENT, -1, version)
            if isinstance(appended, Appended):
                result.set_result(appended)
            else:
                appended.add_done_callback(partial(_pass_on, result))

    def _refused(self, key: TopicPartition) -> Appended:
        code = self._question.codes[key]
        if code in _RETRIED or (code is ErrorCode.concurrent_transactions and not self._question.client.adds):
            return Appended(
                ErrorCode.not_enough_replicas,
                message=f"It could not be found out whether {key} is part of the transaction ({code.name.upper()})",
            )
        if code is ErrorCode.invalid_txn_state:
            return Appended(code, message=f"{key} was not added to the transaction")
        return Appended(code)


def begins_transaction(partition: Partition, header: BatchHeader) -> bool:
    return partition.is_leader and not partition.log.producers.has_open(header.producer_id, header.producer_epoch)


def is_known_to_begin(
    context: Context, transactional_id: str, producer: ProducerEpoch, partition: Partition, sequence: int
) -> bool:
    """Whether the coordinator is here, and the client has told it of the partition: then there is nobody to ask."""
    node = context.node
    if context.header.version >= _ADDS_FROM or not node.txn_partitions.knows(transactional_id, producer, partition.key):
        return False
    producers = partition.log.producers
    begun = producers.begin_verification(*producer, sequence, False, node.env.clock.now_ms())
    if not isinstance(begun, Verification):
        return False  # it is refused, which is for others to tell
    producers.verified(*producer, begun)
    return True


def transactional_header(batch: Buffer) -> BatchHeader | None:
    """Of a batch that is part of a transaction."""
    if len(batch) < HEADER_SIZE:
        return None
    header = parse_header(batch)
    return header if header.is_transactional and header.producer_id >= 0 else None


def producer_of(batches: Iterable[Buffer]) -> ProducerEpoch | ErrorCode | None:
    """Who writes in a transaction; Kafka takes one producer in a request."""
    found: ProducerEpoch | None = None
    for batch in batches:
        header = transactional_header(batch)
        if header is not None:
            producer = ProducerEpoch(header.producer_id, header.producer_epoch)
            if found is not None and producer != found:
                return ErrorCode.invalid_producer_id_mapping
            found = producer
    return found
