"""ListTransactions (key 66): the transactional ids that this broker coordinates (KIP-664).

Versions: 1 can ask for those that run longer than some time (KIP-994), 2 for names by a pattern (KIP-1152).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.coordinator.group.consumer.matching import check_pattern, match
from ottla.coordinator.shard import State
from ottla.coordinator.txn.machine import Listed
from ottla.coordinator.txn.transaction import BY_TEXT, TxnState
from ottla.env.slices import Rows
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import Operation, Resource

_BY_DURATION: Final = 1
_BY_PATTERN: Final = 2


def handle(context: Context, request: Any) -> Any:
    unknown = [name for name in request.state_filters if name not in BY_TEXT]
    states = {BY_TEXT[name] for name in request.state_filters if name in BY_TEXT} if request.state_filters else None
    try:
        listed = _list(context, request, states)
    except KafkaError as error:
        return context.respond(
            throttle_time=timedelta(0), error_code=error.code, unknown_state_filters=[], transaction_states=[]
        )
    rows = [
        {
            "transactional_id": name,
            "producer_id": transaction.producer_id,
            "transaction_state": transaction.state.text,
        }
        for name, transaction in Rows(listed)
        if context.allowed(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, name)
    ]
    return context.respond(
        throttle_time=timedelta(0), error_code=ErrorCode.none, unknown_state_filters=unknown, transaction_states=rows
    )


def _list(context: Context, request: Any, states: set[TxnState] | None) -> list[Listed]:
    shards = context.node.txns.runtime.active
    if any(shard.state is State.LOADING for shard in shards):
        raise KafkaError(ErrorCode.coordinator_load_in_progress, "transactions are being loaded")
    longer_than_ms = request.duration_filter if context.version >= _BY_DURATION else -1
    pattern = request.transactional_id_pattern if context.version >= _BY_PATTERN else None
    if pattern:
        check_pattern(pattern)
    listed = [
        each
        for shard in shards
        if shard.state is State.ACTIVE
        for each in shard.read(lambda txns: list(txns.list(request.producer_id_filters, states, longer_than_ms, None)))
    ]
    if not pattern:
        return listed
    names = set(match([pattern], [each.transactional_id for each in listed])[pattern])
    return [each for each in listed if each.transactional_id in names]
