"""Questions about transactions to coordinators on other brokers: AddPartitionsToTxn of many producers at once.

One request at a time to each broker, with all that has come up meanwhile: as with Kafka's brokers, the other reads the
next only when it has answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ottla.broker.peer_brokers import PeerBrokers
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import TopicPartition

_log = logging.getLogger("ottla.broker")
_ADD_PARTITIONS: Final = 24
_MOST_IN_A_REQUEST: Final = 1000
Codes = dict[TopicPartition, ErrorCode]


class _Asked(NamedTuple):
    transactional_id: str
    producer: ProducerEpoch
    adds: bool
    partitions: Sequence[TopicPartition]
    answer: asyncio.Future[Codes]

    def all_with(self, code: ErrorCode) -> Codes:
        return dict.fromkeys(self.partitions, code)


class RemoteQuestions:
    def __init__(self, env: Env, peers: PeerBrokers) -> None:
        self._env = env
        self._peers = peers
        self._queues: dict[int, deque[_Asked]] = {}
        self._busy: set[int] = set()
        self._tasks = Tasks(lambda error: _log.error("a coordinator could not be asked: %s", error, exc_info=error))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def ask(
        self,
        broker_id: int,
        transactional_id: str,
        producer: ProducerEpoch,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> Codes:
        asked = _Asked(transactional_id, producer, adds, partitions, self._env.loop.create_future())
        self._queues.setdefault(broker_id, deque()).append(asked)
        if broker_id not in self._busy:
            self._busy.add(broker_id)
            self._tasks.start(self._empty_queue(broker_id), f"questions to broker {broker_id}")
        return await asked.answer

    async def _empty_queue(self, broker_id: int) -> None:
        queue = self._queues[broker_id]
        try:
            while queue:
                rows = _one_of_each(queue)
                for asked, codes in zip(rows, await self._answers(broker_id, rows), strict=True):
                    if not asked.answer.done():
                        asked.answer.set_result(codes)
        finally:
            self._busy.discard(broker_id)

    async def _answers(self, broker_id: int, rows: Sequence[_Asked]) -> list[Codes]:
        request = {"transactions": [_row(asked) for asked in rows]}
        try:
            answer = await self._peers.call(broker_id, _ADD_PARTITIONS, request)
        except OttlaError:
            return [asked.all_with(ErrorCode.network_exception) for asked in rows]
        if answer.error_code is not ErrorCode.none:
            refused = answer.error_code is ErrorCode.cluster_authorization_failed
            return [asked.all_with(ErrorCode.invalid_txn_state if refused else answer.error_code) for asked in rows]
        told = {result.transactional_id: result.topic_results for result in answer.results_by_transaction}
        return [
            {
                TopicPartition(topic.name, row.partition_index): row.partition_error_code
                for topic in told.get(asked.transactional_id, ())
                for row in topic.results_by_partition
            }
            for asked in rows
        ]


def _one_of_each(queue: deque[_Asked]) -> list[_Asked]:
    """From the front, until an id comes again: answers are told apart by it."""
    rows: dict[str, _Asked] = {}
    while queue and queue[0].transactional_id not in rows and len(rows) < _MOST_IN_A_REQUEST:
        asked = queue.popleft()
        rows[asked.transactional_id] = asked
    return list(rows.values())


def _row(asked: _Asked) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for topic, number in asked.partitions:
        topics.setdefault(topic, []).append(number)
    return {
        "transactional_id": asked.transactional_id,
        "producer_id": asked.producer.producer_id,
        "producer_epoch": asked.producer.epoch,
        "verify_only": not asked.adds,
        "topics": [{"name": name, "partitions": numbers} for name, numbers in topics.items()],
    }
