"""EndTxn (key 26): a transaction is committed or aborted.

Versions: 2 tells PRODUCER_FENCED apart from INVALID_PRODUCER_EPOCH, 3 is flexible, 4 may tell TRANSACTION_ABORTABLE, 5
is of transactions' second version (KIP-890): every transaction has its epoch, and the answer tells the next one.

The answer comes when the outcome is decided for good, in the coordinator's log; partitions hear of it after that.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.broker.apis.txn_format import NEXT_EPOCH, End, read_end, write_ended
from ottla.broker.context import Context, Waiting
from ottla.broker.group_requests import answer_of
from ottla.broker.txn_requests import ask_for_producer, fenced
from ottla.coordinator.machine import Outcome
from ottla.coordinator.shard import Haste
from ottla.coordinator.txn.machine import Ended, TxnMachine
from ottla.coordinator.txn.transaction import EPOCH_BUMPS_FROM, ProducerEpoch
from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource
from ottla.wire.codec import decode_request

_FENCED_FROM: Final = 2
_NONE: Final = ErrorCode.none
_KEY: Final = 26


def read(version: int, body: Buffer) -> End:
    usual = read_end(version, body)
    if usual is not None:
        return usual
    entity = decode_request(_KEY, version, body)
    producer = ProducerEpoch(entity.producer_id, entity.producer_epoch)
    return End(entity.transactional_id, producer, entity.committed)


def handle(context: Context, request: End) -> bytes | Waiting | Coroutine[Any, Any, bytes]:
    name, producer, is_commit = request
    if not context.allowed(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
        return _respond(context, Ended(ErrorCode.transactional_id_authorization_failed))
    if not name:
        return _respond(context, Ended(ErrorCode.invalid_request))
    version = EPOCH_BUMPS_FROM if context.version >= NEXT_EPOCH else 0

    def end(txns: TxnMachine) -> Outcome[Ended]:
        return txns.end(name, producer, is_commit, version)

    if context.node.producer_ids.is_empty:  # one may be needed, and be waited for
        return _end_with_ids(context, name, end)
    told = context.node.txns.ask(name, end, Haste.NOW)
    if told.replied is not None:
        return _respond(context, told.replied)
    return Waiting(told, lambda told: _respond(context, answer_of(told, Ended)))


async def _end_with_ids(context: Context, name: str, end: Callable[[TxnMachine], Outcome[Ended]]) -> bytes:
    return _respond(context, await ask_for_producer(context, name, end))


def _respond(context: Context, ended: Ended) -> bytes:
    code, producer = ended
    header = context.header
    if code is not _NONE:
        code = fenced(code, header.version, _FENCED_FROM)
        context.count_errors((code,))
    return write_ended(header.version, header.correlation_id, code, producer)
