"""DescribeTransactions (key 65): what the coordinator knows of transactional ids (KIP-664).

Of a transaction that is being ended it names the partitions that are still to hear of it: where one is open on another,
it hangs.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.coordinator.txn.transaction import ENDING, Transaction
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import TopicPartition
from ottla.security.authorizer import Operation, Resource

_MS: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def handle(context: Context, request: Any) -> Any:
    states = [_describe(context, name) for name in request.transactional_ids]
    return context.respond(throttle_time=timedelta(0), transaction_states=states)


def _describe(context: Context, name: str) -> dict[str, Any]:
    found = _find(context, name)
    if isinstance(found, ErrorCode):
        return _row(found, name, Transaction(0), "", [])
    partitions: Collection[TopicPartition] = found.partitions
    if found.state in ENDING:
        missing = context.node.txns.markers.missing(name)
        partitions = missing if missing is not None else partitions
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    seen = [
        {"topic": topic, "partitions": numbers}
        for topic, numbers in topics.items()
        if context.allowed(Operation.DESCRIBE, Resource.TOPIC, topic)
    ]
    return _row(ErrorCode.none, name, found, found.state.text, seen)


def _find(context: Context, name: str) -> Transaction | ErrorCode:
    if not context.allowed(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name):
        return ErrorCode.transactional_id_authorization_failed
    if not name:
        return ErrorCode.invalid_request
    try:
        found = context.node.txns.read(name, lambda txns: txns.describe(name))
    except KafkaError as error:
        return error.code
    return found if found is not None else ErrorCode.transactional_id_not_found


def _row(
    code: ErrorCode, name: str, transaction: Transaction, state: str, topics: list[dict[str, Any]]
) -> dict[str, Any]:
    failed = code is not ErrorCode.none
    return {
        "error_code": code,
        "transactional_id": name,
        "transaction_state": state,
        "transaction_timeout": transaction.timeout_ms * _MS,
        "transaction_start_time": _EPOCH if failed else _EPOCH + transaction.start_ms * _MS,
        "producer_id": 0 if failed else transaction.producer_id,
        "producer_epoch": 0 if failed else transaction.epoch,
        "topics": topics,
    }
