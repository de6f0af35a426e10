"""AddOffsetsToTxn (key 25): a transaction is going to commit offsets of a group: its partition of `__consumer_offsets`
takes part.

Versions: 2 tells PRODUCER_FENCED apart from INVALID_PRODUCER_EPOCH, 3 is flexible, 4 may tell TRANSACTION_ABORTABLE.
Clients of transactions' second version do not send it: TxnOffsetCommit says the same.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.txn_patience import add_partitions
from ottla.broker.txn_requests import fenced
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import OFFSETS_TOPIC, TopicPartition
from ottla.security.authorizer import Operation, Resource

_FENCED_FROM: Final = 2


async def handle(context: Context, request: Any) -> Any:
    code = fenced(await _add(context, request), context.version, _FENCED_FROM)
    return context.respond(throttle_time=timedelta(0), error_code=code)


async def _add(context: Context, request: Any) -> ErrorCode:
    name = request.transactional_id
    if not context.allowed(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
        return ErrorCode.transactional_id_authorization_failed
    if not context.allowed(Operation.READ, Resource.GROUP, request.group_id):
        return ErrorCode.group_authorization_failed
    if not name:
        return ErrorCode.invalid_request
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    try:
        partition = TopicPartition(OFFSETS_TOPIC, context.node.groups.partition_of(request.group_id))
        return await add_partitions(context.node, name, producer, (partition,), 0)
    except KafkaError as error:
        return error.code
