"""AddPartitionsToTxn (key 24): which partitions a transaction is going to write to.

Versions: 2 tells PRODUCER_FENCED apart from INVALID_PRODUCER_EPOCH, 3 is flexible and the last that clients send. From
4 on it is said by brokers among themselves, for many transactions at once: a partition is added for a client of
transactions' second version, or it is only verified that it is there (KIP-890). 5 may tell TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ottla.broker.context import Context, Waiting
from ottla.broker.group_requests import answer_of
from ottla.broker.txn_patience import ask_to_add
from ottla.broker.txn_requests import fenced
from ottla.coordinator.txn.transaction import EPOCH_BUMPS_FROM, ProducerEpoch
from ottla.model.errors import ErrorCode, KafkaError
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


def handle(context: Context, request: Any) -> Any | Waiting | Coroutine[Any, Any, Any]:
    return _of_brokers(context, request) if context.version >= _OF_BROKERS else _add_for_client(context, request)


def _add_for_client(context: Context, request: Any) -> Any | Waiting:
    transaction = _of_client(request)
    name, producer, _, partitions = transaction

    def tell(codes: _Codes) -> Any:
        results = _topics(request.v3_and_below_topics, codes)
        return context.respond(throttle_time=timedelta(0), results_by_topic_v3_and_below=results)

    refused = _refusal(context, transaction)
    if refused:
        return tell(refused)
    told = ask_to_add(context.node, name, producer, partitions, 0)
    return Waiting(
        told,
        lambda told: tell(
            dict.fromkeys(partitions, fenced(answer_of(told, lambda code: code), context.version, _FENCED_FROM))
        ),
    )


async def _of_brokers(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return _respond(context, ErrorCode.cluster_authorization_failed, [])
    transactions = [
        _transaction(
            each.transactional_id, each.producer_id, each.producer_epoch, each.topics, verify_only=each.verify_only
        )
        for each in request.transactions
    ]
    asked = [_ask(context, each) for each in transactions]  # all of them, before one is waited for
    results = [
        {"transactional_id": each.name, "topic_results": _topics(row.topics, await _codes(each, told))}
        for row, each, told in zip(request.transactions, transactions, asked, strict=True)
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


def _ask(context: Context, transaction: _Transaction) -> _Codes | asyncio.Future[ErrorCode] | asyncio.Future[_Codes]:
    """Another broker asks, and comes again by itself after CONCURRENT_TRANSACTIONS: others of it are not held up."""
    name, producer, verify_only, partitions = transaction
    refused = _refusal(context, transaction)
    if refused:
        return refused
    txns = context.node.txns
    if verify_only:
        return txns.submit(name, lambda txns: txns.verify(name, producer, partitions))
    return txns.submit(name, lambda txns: txns.add_partitions(name, producer, partitions, EPOCH_BUMPS_FROM))


async def _codes(
    transaction: _Transaction, told: _Codes | asyncio.Future[ErrorCode] | asyncio.Future[_Codes]
) -> _Codes:
    if isinstance(told, dict):
        return told
    try:
        answer = await told
    except KafkaError as error:
        answer = error.code
    return answer if isinstance(answer, dict) else dict.fromkeys(transaction.partitions, answer)


def _refusal(context: Context, transaction: _Transaction) -> _Codes:
    """What is to be said before the coordinator is asked; nothing if it is to be asked."""
    name, _, _, partitions = transaction
    is_client = context.version < _OF_BROKERS
    if is_client and not context.allowed(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
        return dict.fromkeys(partitions, ErrorCode.transactional_id_authorization_failed)
    refused = _refused(context, partitions, is_client)
    if refused:  # all or nothing
        return refused | {key: ErrorCode.operation_not_attempted for key in partitions if key not in refused}
    return {} if name else dict.fromkeys(partitions, ErrorCode.invalid_request)


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


def _topics(asked: Any, codes: _Codes) -> list[dict[str, Any]]:
    """As they were asked about, those that were named twice too; what is wrong in itself stands first."""
    order = {key: place for place, key in enumerate(codes)}
    found = []
    for topic in asked:
        keys = sorted((TopicPartition(topic.name, number) for number in topic.partitions), key=order.__getitem__)
        rows = [{"partition_index": key.partition, "partition_error_code": codes[key]} for key in keys]
        found.append({"name": topic.name, "results_by_partition": rows})
    return found
