"""Before a partition takes the first batch of a transaction, the transaction's coordinator is asked about it (KIP-890).

Clients of transactions' second version do not tell the coordinator themselves: their partitions are added here. For
others it is verified that they have. Either way no transaction begins on a partition that would get no marker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from ottla.broker.group_requests import answer_of
from ottla.broker.peer_brokers import PeerBrokers
from ottla.broker.txn_patience import add_partitions, ask_to_add
from ottla.broker.txn_questions import Codes, RemoteQuestions
from ottla.coordinator.told import Told
from ottla.coordinator.txn.transaction import EPOCH_BUMPS_FROM, ProducerEpoch
from ottla.env.tasks import Tasks
from ottla.log.producers import Refused, Verification
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import TRANSACTION_TOPIC, TopicPartition
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.node import Node

_log = logging.getLogger("ottla.broker")
_NONE: Final = ErrorCode.none


class Client(Enum):
    """What a client of a version may be told, and leaves to the broker."""

    OF_OLD = "knows no TRANSACTION_ABORTABLE"
    VERIFIED = "adds its partitions itself"
    ADDED = "leaves it to the broker"

    @property
    def adds(self) -> bool:
        return self is Client.ADDED


class Question:
    """What the coordinator is to be asked, about some partitions of one request."""

    def __init__(self, transactional_id: str, producer: ProducerEpoch, client: Client) -> None:
        self.transactional_id = transactional_id
        self.producer = producer
        self.client = client
        self.codes: Codes = {}
        self._begun: dict[TopicPartition, tuple[Partition, Verification]] = {}

    def add(self, partition: Partition, sequence: int, now_ms: int) -> Verification | None:
        """What is to be found out; None if there is nothing to ask, or a refusal in `codes`."""
        begun = partition.log.producers.begin_verification(*self.producer, sequence, self.client.adds, now_ms)
        if isinstance(begun, Refused):
            self.codes[partition.key] = begun.code
            return None
        if begun is not None:
            self._begun[partition.key] = (partition, begun)
        return begun

    def is_answered(self, partition: Partition, begun: Verification) -> None:
        """It is part of the transaction, as was known without asking."""
        partition.log.producers.verified(*self.producer, begun)
        del self._begun[partition.key]

    @property
    def partitions(self) -> list[TopicPartition]:
        return list(self._begun)

    def answer(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        for key, (partition, begun) in self._begun.items():
            code = codes.get(key, ErrorCode.unknown_server_error)
            if code is _NONE:
                partition.log.producers.verified(*self.producer, begun)
            else:
                self.codes[key] = self._told(code)

    def _told(self, code: ErrorCode) -> ErrorCode:
        """Producers expect INVALID_PRODUCER_EPOCH here, and those of old no errors of today."""
        if code is ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        if code is ErrorCode.transaction_abortable and self.client is Client.OF_OLD:
            return ErrorCode.invalid_txn_state
        return code


class TxnPartitions:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._tasks = Tasks(lambda error: _log.error("a transaction was not verified: %s", error, exc_info=error))
        self._peers = PeerBrokers(node.env, lambda: node.config, lambda: node.image, "add-partitions-to-txn")
        self._elsewhere = RemoteQuestions(node.env, self._peers)

    async def stop(self) -> None:
        await self._tasks.stop()
        await self._elsewhere.stop()
        await self._peers.stop()

    def start(self, question: Question, answered: Callable[[], None]) -> None:
        """Calls back when all is known: within this call, where the coordinator is here and nothing is in its way."""
        if question.client.adds and self._is_coordinated_here(question.transactional_id):
            partitions = question.partitions

            def added(told: Told[ErrorCode]) -> None:
                question.answer(dict.fromkeys(partitions, answer_of(told, lambda code: code)))
                answered()

            ask_to_add(
                self._node, question.transactional_id, question.producer, partitions, EPOCH_BUMPS_FROM
            ).add_done_callback(added)
            return

        async def ask() -> None:
            try:
                await self.ask(question)
            except Exception:
                question.answer(dict.fromkeys(question.partitions, ErrorCode.unknown_server_error))
                raise
            finally:
                answered()

        self._tasks.start(ask(), "ask about a transaction")

    @property
    def verifies(self) -> bool:
        return bool(self._node.config.get("transaction.partition.verification.enable"))

    async def ask(self, question: Question) -> None:
        """Afterwards `codes` has what is wrong with partitions; the others may be appended to.

        While markers of the transaction before are being written, it is asked again for a moment: to send a batch once
        more costs a client much longer.
        """
        if not question.client.adds and not self.verifies:
            question.answer(dict.fromkeys(question.partitions, _NONE))
            return
        node = self._node
        again_ms = node.config.get_int("add.partitions.to.txn.retry.backoff.ms")
        within_ms = min(
            node.config.get_int("add.partitions.to.txn.retry.backoff.max.ms"), node.config.request_timeout_ms
        )
        ends = node.env.loop.time() + within_ms / 1000
        while True:
            codes = await self._ask(question)
            is_busy = question.client.adds and ErrorCode.concurrent_transactions in codes.values()
            if not is_busy or node.env.loop.time() >= ends:
                question.answer(codes)
                return
            await asyncio.sleep(again_ms / 1000)

    def knows(self, transactional_id: str, producer: ProducerEpoch, partition: TopicPartition) -> bool:
        """Whether the coordinator is here and knows of the partition already: then nothing has to be waited for."""
        if not self.verifies:
            return True
        txns = self._node.txns
        try:
            shard = txns.runtime.shard(txns.partition_of(transactional_id))
        except KafkaError:
            return False
        return shard.machine.has_committed(transactional_id, producer, partition)

    def _is_coordinated_here(self, transactional_id: str) -> bool:
        number = self._node.txns.number_of(transactional_id)
        return bool(transactional_id) and _leader(self._node, number) == self._node.config.node_id

    async def _ask(self, question: Question) -> Codes:
        node, partitions = self._node, question.partitions
        if not question.transactional_id:
            return dict.fromkeys(partitions, ErrorCode.invalid_request)
        try:
            number = node.txns.partition_of(question.transactional_id)
        except KafkaError as error:
            return dict.fromkeys(partitions, error.code)
        leader = _leader(node, number)
        if leader == node.config.node_id:
            return await self._ask_here(question, partitions)
        if leader is None or not self._peers.is_reachable(leader):
            return dict.fromkeys(partitions, ErrorCode.coordinator_not_available)
        return await self._elsewhere.ask(
            leader, question.transactional_id, question.producer, partitions, adds=question.client.adds
        )

    async def _ask_here(self, question: Question, partitions: Sequence[TopicPartition]) -> Codes:
        name, producer = question.transactional_id, question.producer
        try:
            if not question.client.adds:
                return await self._node.txns.submit(name, lambda txns: txns.verify(name, producer, partitions))
            added = await add_partitions(self._node, name, producer, partitions, EPOCH_BUMPS_FROM)
        except KafkaError as error:
            added = error.code
        return dict.fromkeys(partitions, added)


def _leader(node: Node, number: int) -> int | None:
    topic = node.image.topic(TRANSACTION_TOPIC)
    partition = topic.partitions.get(number) if topic is not None else None
    return partition.leader if partition is not None and partition.leader >= 0 else None
