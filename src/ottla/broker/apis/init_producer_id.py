"""InitProducerId (key 22): an id under which a producer's batches are numbered, so that none is stored twice.

Versions: 2 is flexible, 3 lets a producer say which id and epoch it had (KIP-360), 4 tells PRODUCER_FENCED apart from
INVALID_PRODUCER_EPOCH, 5 is of transactions' second version (KIP-890). Without a transactional id the answer is always
a new id with epoch 0, also to a producer that had one. With one it is the transaction coordinator's: the same id with
the next epoch, which fences whoever had it before; a transaction that is still open is aborted first. Version 6, for
transactions that another coordinator ends (KIP-939), is not offered by Kafka 4.3 either.
"""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.txn_requests import ask_for_producer, fenced
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import NO_EPOCH, NO_PRODUCER_ID
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_FENCED_FROM: Final = 4
_ONE_MS: Final = timedelta(milliseconds=1)


def handle(context: Context, request: Any) -> Any | Coroutine[Any, Any, Any]:
    code = _refusal(context, request)
    if code is not ErrorCode.none:
        return _answer(context, code)
    if request.transactional_id is not None:
        return _initialise(context, request)
    ids = context.node.producer_ids
    producer_id = ids.take()
    return _answer(context, ErrorCode.none, producer_id) if producer_id is not None else _wait(context, ids)


def _refusal(context: Context, request: Any) -> ErrorCode:
    transactional_id = request.transactional_id
    if transactional_id is not None:
        if not context.allowed(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id):
            return ErrorCode.transactional_id_authorization_failed
    elif not _may_write(context):
        return ErrorCode.cluster_authorization_failed
    if context.version >= 3 and (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.invalid_request
    if transactional_id is None:
        return ErrorCode.none
    if not transactional_id:
        return ErrorCode.invalid_request
    if not 0 < request.transaction_timeout // _ONE_MS <= context.node.config.transaction_max_timeout_ms:
        return ErrorCode.invalid_transaction_timeout
    return ErrorCode.none


async def _initialise(context: Context, request: Any) -> Any:
    name, timeout_ms = request.transactional_id, request.transaction_timeout // _ONE_MS
    expected = None
    if context.version >= 3 and request.producer_id != NO_PRODUCER_ID:
        expected = ProducerEpoch(request.producer_id, request.producer_epoch)
    reply = await ask_for_producer(context, name, lambda txns: txns.initialise(name, timeout_ms, expected))
    code = fenced(reply.code, context.version, _FENCED_FROM)
    return _answer(context, code, reply.producer.producer_id, reply.producer.epoch)


def _may_write(context: Context) -> bool:
    """KIP-679: who may write to any topic needs no permission of its own to do so idempotently."""
    return context.allowed(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME) or any(
        context.allowed(Operation.WRITE, Resource.TOPIC, name) for name in context.node.image.topic_ids
    )


async def _wait(context: Context, ids: ProducerIds) -> Any:
    producer_id = None
    while producer_id is None:
        try:
            await ids.wait()
        except KafkaError:
            return _answer(context, ErrorCode.coordinator_load_in_progress)  # the client tries again
        producer_id = ids.take()
    return _answer(context, ErrorCode.none, producer_id)


def _answer(context: Context, code: ErrorCode, producer_id: int = NO_PRODUCER_ID, epoch: int = 0) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        error_code=code,
        producer_id=producer_id,
        producer_epoch=epoch if code is ErrorCode.none else NO_EPOCH,
    )
