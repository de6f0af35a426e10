"""AddPartitionsToTxn (key 24): which partitions a transaction is going to write to.

Versions: 2 tells PRODUCER_FENCED apart from INVALID_PRODUCER_EPOCH, 3 is flexible and the last that clients send. From
4 on it is said by brokers among themselves, for many transactions at once: a partition is added for a client of
transactions' second version, or it is only verified that it is there (KIP-890). 5 may tell TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ottla.broker.apis.txn_format import (
    Additions,
    Topic,
    additions,
    in_order,
    partitions_of,
    read_additions,
    write_added,
    write_all_fine,
)
from ottla.broker.context import Context, Waiting
from ottla.broker.group_requests import answer_of
from ottla.broker.txn_patience import ask_to_add
from ottla.broker.txn_requests import fenced
from ottla.coordinator.told import Told
from ottla.coordinator.txn.transaction import EPOCH_BUMPS_FROM, ProducerEpoch
from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import INTERNAL_TOPICS, TopicPartition
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource
from ottla.wire.codec import decode_request

_KEY: Final = 24
_FENCED_FROM: Final = 2
_OF_BROKERS: Final = 4
_NONE: Final = ErrorCode.none
_Codes = dict[TopicPartition, ErrorCode]


class _Transaction(NamedTuple):
    name: str
    producer: ProducerEpoch
    verify_only: bool
    partitions: tuple[TopicPartition, ...]


def read(version: int, body: Buffer) -> Any:
    """`Additions` of a client; what the decoder of all APIs gives of a broker."""
    usual = read_additions(version, body) if version < _OF_BROKERS else None
    if usual is not None:
        return usual
    entity = decode_request(_KEY, version, body)
    if version >= _OF_BROKERS:
        return entity
    producer = ProducerEpoch(entity.v3_and_below_producer_id, entity.v3_and_below_producer_epoch)
    topics = [Topic(topic.name, topic.partitions) for topic in entity.v3_and_below_topics]
    return additions(version, entity.v3_and_below_transactional_id, producer, topics)


def handle(context: Context, request: Any) -> bytes | Waiting | Coroutine[Any, Any, Any]:
    return _of_brokers(context, request) if context.version >= _OF_BROKERS else _add_for_client(context, request)


def _add_for_client(context: Context, request: Additions) -> bytes | Waiting:
    name, producer, topics, partitions, _ = request

    def refuse(codes: _Codes) -> bytes:
        header = context.header
        context.count_errors(codes.values())
        return write_added(header.version, header.correlation_id, in_order(topics, codes))

    def tell(told: Told[ErrorCode]) -> bytes:
        if told.replied is _NONE:
            return write_all_fine(context.header.correlation_id, request)
        code = fenced(answer_of(told, lambda code: code), context.version, _FENCED_FROM)
        return refuse(dict.fromkeys(partitions, code))

    refused = _refusal(context, name, partitions)
    if refused:
        return refuse(refused)
    told = ask_to_add(context.node, name, producer, partitions, 0)
    return tell(told) if told.done() else Waiting(told, tell)


async def _of_brokers(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return _respond(context, ErrorCode.cluster_authorization_failed, [])
    transactions = [
        _Transaction(
            each.transactional_id,
            ProducerEpoch(each.producer_id, each.producer_epoch),
            each.verify_only,
            partitions_of(each.topics),
        )
        for each in request.transactions
    ]
    asked = [_ask(context, each) for each in transactions]  # all of them, before one is waited for
    results = [
        {"transactional_id": each.name, "topic_results": _results(row.topics, await _codes(each, told))}
        for row, each, told in zip(request.transactions, transactions, asked, strict=True)
    ]
    return _respond(context, _NONE, results)


def _respond(context: Context, code: ErrorCode, results: list[dict[str, Any]]) -> Any:
    return context.respond(throttle_time=timedelta(0), error_code=code, results_by_transaction=results)


def _ask(context: Context, transaction: _Transaction) -> _Codes | asyncio.Future[ErrorCode] | asyncio.Future[_Codes]:
    """Another broker asks, and comes again by itself after CONCURRENT_TRANSACTIONS: others of it are not held up."""
    name, producer, verify_only, partitions = transaction
    refused = _refusal(context, name, partitions)
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


def _refusal(context: Context, name: str, partitions: tuple[TopicPartition, ...]) -> _Codes:
    """What is to be said before the coordinator is asked; nothing if it is to be asked."""
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


def _results(asked: Iterable[Topic], codes: _Codes) -> list[dict[str, Any]]:
    """The same to a broker."""
    return [
        {
            "name": name,
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": code} for number, code in rows
            ],
        }
        for name, rows in in_order(asked, codes)
    ]
