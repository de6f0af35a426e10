"""AddPartitionsToTxn (key 24): which partitions a transaction is going to write to.

Versions: 2 tells PRODUCER_FENCED apart from INVALID_PRODUCER_EPOCH, 3 is flexible and the last that clients send. From
4 on it is said by brokers among themselves, for many transactions at once: a partition is added for a client of
transactions' second version, or it is only verified that it is there (KIP-890). 5 may tell TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ottla.broker.context import Api, Context
from ottla.broker.txn_requests import ask, fenced
from ottla.coordinator.txn.transaction import EPOCH_BUMPS_FROM, ProducerEpoch
from ottla.model.errors import ErrorCode
from ottla.model.names import INTERNAL_TOPICS, TopicPartition
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_FENCED_FROM: Final = 2
_OF_BROKERS: Final = 4
_NONE: Final = ErrorCode.none
_Codes = dict[TopicPartition, ErrorCode]


class _Transaction(NamedTuple):
    name: str
    producer: ProducerEpoch
    verify_only: bool
    partitions: tuple[TopicPartition, ...]


async def handle(context: Context, request: Any) -> Any:
    if context.version < _OF_BROKERS:
        codes = await _add(context, _of_client(request))
        return context.respond(throttle_time=timedelta(0), results_by_topic_v3_and_below=_topics(codes))
    if not context.allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return _respond(context, ErrorCode.cluster_authorization_failed, [])
    transactions = [
        _transaction(
            each.transactional_id, each.producer_id, each.producer_epoch, each.topics, verify_only=each.verify_only
        )
        for each in request.transactions
    ]
    answers = await asyncio.gather(*[_add(context, each) for each in transactions])
    results = [
        {"transactional_id": each.name, "topic_results": _topics(codes)}
        for each, codes in zip(transactions, answers, strict=True)
    ]
    return _respond(context, _NONE, results)


def _respond(context: Context, code: ErrorCode, results: list[dict[str, Any]]) -> Any:
    return context.respond(throttle_time=timedelta(0), error_code=code, results_by_transaction=results)


def _of_client(request: Any) -> _Transaction:
    return _transaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        request.v3_and_below_topics,
        verify_only=False,
    )


def _transaction(name: str, producer_id: int, epoch: int, topics: Any, *, verify_only: bool) -> _Transaction:
    partitions = {TopicPartition(topic.name, number): None for topic in topics for number in topic.partitions}
    return _Transaction(name, ProducerEpoch(producer_id, epoch), verify_only, tuple(partitions))


async def _add(context: Context, transaction: _Transaction) -> _Codes:
    name, producer, verify_only, partitions = transaction
    is_client = context.version < _OF_BROKERS
    if is_client and not context.allowed(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
        return dict.fromkeys(partitions, ErrorCode.transactional_id_authorization_failed)
    refused = _refused(context, partitions, is_client)
    if refused:  # all or nothing
        return refused | {key: ErrorCode.operation_not_attempted for key in partitions if key not in refused}
    if not name:
        return dict.fromkeys(partitions, ErrorCode.invalid_request)
    if verify_only:
        return await ask(
            context,
            name,
            lambda txns: txns.verify(name, producer, partitions),
            lambda code: dict.fromkeys(partitions, code),
        )
    version = 0 if is_client else EPOCH_BUMPS_FROM
    code = await ask(
        context, name, lambda txns: txns.add_partitions(name, producer, partitions, version), lambda code: code
    )
    return dict.fromkeys(partitions, fenced(code, context.version, _FENCED_FROM))


def _refused(context: Context, partitions: tuple[TopicPartition, ...], is_client: bool) -> _Codes:
    image = context.node.image
    refused: _Codes = {}
    for key in partitions:
        topic = image.topic(key.topic)
        may = key.topic not in INTERNAL_TOPICS and context.allowed(Operation.WRITE, Resource.TOPIC, key.topic)
        if is_client and not may:
            refused[key] = ErrorCode.topic_authorization_failed
        elif topic is None or key.partition not in topic.partitions:
            refused[key] = ErrorCode.unknown_topic_or_partition
    return refused


def _topics(codes: _Codes) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, number), code in codes.items():
        topics.setdefault(topic, []).append({"partition_index": number, "partition_error_code": code})
    return [{"name": name, "results_by_partition": rows} for name, rows in topics.items()]


API: Final = Api(24, "AddPartitionsToTxn", oldest=0, newest=5, handle=handle)
