"""What the APIs of transactions have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.broker.context import Context
from ottla.coordinator.machine import Outcome
from ottla.coordinator.txn.machine import Initialised, TxnMachine
from ottla.model.errors import ErrorCode, KafkaError

R = TypeVar("R")


def fenced(code: ErrorCode, version: int, known_from: int) -> ErrorCode:
    """Clients of versions before PRODUCER_FENCED know the older word for it."""
    is_new = code is ErrorCode.producer_fenced and version < known_from
    return ErrorCode.invalid_producer_epoch if is_new else code


async def ask(
    context: Context,
    transactional_id: str,
    operation: Callable[[TxnMachine], Outcome[R]],
    refused: Callable[[ErrorCode], R],
) -> R:
    """What the coordinator replied; or what stands for a reply, made of why there is none."""
    try:
        return await context.node.txns.submit(transactional_id, operation)
    except KafkaError as error:
        return refused(error.code)


async def ask_for_producer(
    context: Context, transactional_id: str, operation: Callable[[TxnMachine], Outcome[Initialised]]
) -> Initialised:
    """An operation that may need a new producer id: if there is none at hand, the next ones are waited for."""
    ids = context.node.producer_ids
    had_none = ids.is_empty
    reply = await ask(context, transactional_id, operation, Initialised)
    if reply.code is not ErrorCode.coordinator_load_in_progress or not had_none:
        return reply
    try:
        await ids.wait()
    except KafkaError:
        return reply  # the client tries again
    return await ask(context, transactional_id, operation, Initialised)
