"""OffsetFetch (key 9): how far groups have come.

Versions: 1 is the oldest, with errors by partition only; 2 can ask for all partitions of a group, 5 tells leader
epochs, 6 is flexible, 7 can insist on stable offsets (KIP-447), 8 asks for many groups (KIP-709), 9 says which member
of the consumer protocol asks, 10 names topics by id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from ottla.broker.apis.offset_fetch_format import (
    BY_ID,
    ERROR_OF_GROUP,
    MANY_GROUPS,
    Group,
    Topic,
    errors_of,
    write_answer,
)
from ottla.broker.context import Context
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.offsets import Fetched, Wanted
from ottla.coordinator.machine import Outcome
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import Operation, Resource

_STABLE: Final = 7
_BY_MEMBER: Final = 9
_Found = ErrorCode | dict[str, list[Fetched]] | list[list[Fetched]]


def handle(context: Context, request: Any) -> bytes | Coroutine[Any, Any, bytes]:
    groups = request.groups if context.version >= MANY_GROUPS else (request,)
    if context.version >= _STABLE and request.require_stable:
        return _when_stable(context, groups)
    return _respond(context, [_fetch_now(context, group) for group in groups])


def _respond(context: Context, groups: Sequence[Group]) -> bytes:
    header = context.header
    if errors := errors_of(header.version, groups):
        context.count_errors(errors)
    return write_answer(header.version, header.correlation_id, groups)


def _fetch_now(context: Context, group: Any) -> Group:
    """From what is committed."""
    question = _Question(context, group)
    if not question.is_allowed:
        return question.refuse(ErrorCode.group_authorization_failed)
    try:
        found = context.node.groups.read(group.group_id, lambda machine: question.ask(machine, stable=False))
    except KafkaError as error:
        return question.refuse(error.code)
    return question.answer(found)


async def _when_stable(context: Context, groups: Sequence[Any]) -> bytes:
    """From all that is there; the answer waits until it is committed.

    All are asked before any is waited for. No tasks: what they do would not be done in slices.
    """
    asked = [_ask(context, _Question(context, group)) for group in groups]
    return _respond(context, [await _answered(question, found) for question, found in asked])


def _ask(context: Context, question: _Question) -> tuple[_Question, asyncio.Future[_Found] | ErrorCode]:
    if not question.is_allowed:
        return question, ErrorCode.group_authorization_failed
    try:
        found = context.node.groups.submit(
            question.group_id, lambda machine: Outcome(question.ask(machine, stable=True))
        )  # fmt: skip
    except KafkaError as error:
        return question, error.code
    return question, found


async def _answered(question: _Question, found: asyncio.Future[_Found] | ErrorCode) -> Group:
    if isinstance(found, ErrorCode):
        return question.refuse(found)
    try:
        return question.answer(await found)
    except KafkaError as error:
        return question.refuse(error.code)


class _Question:
    """What is asked of one group."""

    def __init__(self, context: Context, group: Any) -> None:
        self._context = context
        self._group = group
        self._by_id = context.version >= BY_ID
        self._wanted: list[Wanted] = []
        self._refused: list[Topic] = []
        if self.is_allowed:
            self._sort_out()

    @property
    def group_id(self) -> str:
        return str(self._group.group_id)

    @property
    def is_allowed(self) -> bool:
        return self._context.allowed(Operation.DESCRIBE, Resource.GROUP, self._group.group_id)

    def refuse(self, code: ErrorCode) -> Group:
        topics = []
        if self._context.version < ERROR_OF_GROUP:
            topics = [self._nothing(topic, code) for topic in self._group.topics]
        return Group(self._group.group_id, code, topics)

    def ask(self, machine: GroupMachine, *, stable: bool) -> _Found:
        """Only what must be of one moment."""
        group = self._group
        if self._context.version >= _BY_MEMBER:
            code = machine.owners.check_fetch(
                group.group_id, group.member_id, group.member_epoch, committed_only=not stable
            )
            if code is not ErrorCode.none:
                return code
        if group.topics is None:
            return machine.offsets.fetch_all(group.group_id, stable=stable)
        return machine.offsets.fetch(group.group_id, self._wanted, stable=stable)

    def answer(self, found: _Found) -> Group:
        if isinstance(found, ErrorCode):
            return self.refuse(found)
        topics = self._all(found) if isinstance(found, dict) else self._some(found)
        return Group(self._group.group_id, ErrorCode.none, topics)

    def _all(self, found: dict[str, list[Fetched]]) -> list[Topic]:
        """Topics that the asker may not see are left out, and in versions with ids those that have none any more."""
        topics = []
        for name, rows in found.items():
            topic_id = self._context.node.image.topic_ids.get(name)
            if self._may_see(name) and (topic_id is not None or not self._by_id):
                topics.append(Topic(name, topic_id, rows))
        return topics

    def _some(self, found: list[list[Fetched]]) -> list[Topic]:
        pairs = zip(self._wanted, found, strict=True)
        return [Topic(topic.topic, topic.topic_id, rows) for topic, rows in pairs] + self._refused

    def _sort_out(self) -> None:
        for topic in self._group.topics or ():
            name = self._name_of(topic)
            if name is None:
                self._refused.append(self._nothing(topic, ErrorCode.unknown_topic_id))
            elif not self._may_see(name):
                self._refused.append(self._nothing(topic, ErrorCode.topic_authorization_failed))
            else:
                self._wanted.append(Wanted(name, topic.partition_indexes, topic.topic_id if self._by_id else None))

    def _may_see(self, topic: str) -> bool:
        return self._context.allowed(Operation.DESCRIBE, Resource.TOPIC, topic)

    def _name_of(self, topic: Any) -> str | None:
        if not self._by_id:
            return str(topic.name)
        known = self._context.node.image.topics.get(topic.topic_id)
        return known.name if known is not None else None

    def _nothing(self, topic: Any, code: ErrorCode) -> Topic:
        rows = [Fetched(partition, code=code) for partition in topic.partition_indexes]
        return Topic("", topic.topic_id, rows) if self._by_id else Topic(topic.name, None, rows)
