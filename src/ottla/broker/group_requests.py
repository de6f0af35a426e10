"""What the APIs of groups have in common: how they ask the coordinator, and what they tell it of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ottla.broker.context import Context
from ottla.coordinator.group.classic.requests import Client
from ottla.coordinator.machine import Outcome
from ottla.coordinator.told import Told
from ottla.env.slices import breathe
from ottla.metadata.controller.features import GROUP_VERSION
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.coordinator.group.machine import GroupMachine

R = TypeVar("R")


def submit(context: Context, group_id: str, operation: Callable[[GroupMachine], Outcome[R]]) -> asyncio.Future[R]:
    """What the operation replied, or the KafkaError that kept it from doing so; nothing is raised here."""
    breathe()
    try:
        return context.node.groups.submit(group_id, operation)
    except KafkaError as error:
        failed: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        failed.set_exception(error)
        failed.exception()  # it may never be asked for, if the client has gone
        return failed


def ask(
    context: Context, group_id: str, operation: Callable[[GroupMachine, Callable[[R], None]], Outcome[None]]
) -> asyncio.Future[R]:
    """For operations whose answer comes when other members have done their part."""
    told: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    def answer(what: R) -> None:
        if not told.done():
            told.set_result(what)

    def written(done: asyncio.Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None and not told.done():
            told.set_exception(error)
            told.exception()

    stored = submit(context, group_id, lambda machine: operation(machine, answer))
    if stored.done():
        written(stored)
    else:
        stored.add_done_callback(written)
    return told


def code_of(told: asyncio.Future[Any] | Told[Any]) -> ErrorCode:
    """Why there is no answer; raises what is no KafkaError."""
    error = told.exception()
    if error is None:
        return ErrorCode.none
    if isinstance(error, KafkaError):
        return error.code
    raise error


def answer_of(told: asyncio.Future[R] | Told[R], otherwise: Callable[[ErrorCode], R]) -> R:
    """What was answered; or what stands for an answer, with why there is none."""
    code = code_of(told)
    return told.result() if code is ErrorCode.none else otherwise(code)


def heard(context: Context, group_id: str, member_id: str) -> None:
    """For the history: a member speaks, by this connection."""
    context.node.groups.history.heard(group_id, member_id, context.connection)


def serves_consumer_groups(node: Node) -> bool:
    """Whether the consumer protocol is spoken here: configs and the cluster's feature level have a say in it."""
    protocols = node.config.get("group.coordinator.rebalance.protocols")
    return "consumer" in cast(Sequence[str], protocols) and node.image.features.get(GROUP_VERSION, 0) >= 1


def client_of(context: Context) -> Client:
    """As Kafka writes it down: the address with a slash before it."""
    return Client(context.header.client_id or "", f"/{context.connection.host}")


def milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
