"""OffsetCommit (key 8): how far a group has come, kept for it.

Versions: 2 is the oldest, 2 to 4 let a client set how long offsets are kept, 6 adds the leader epoch, 7 the instance
(KIP-345), 8 is flexible, 9 tells GROUP_ID_NOT_FOUND and is for members of both protocols, 10 names topics by id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import Any, Final
from uuid import UUID

from ottla.broker.apis.offset_commit_again import Again, Repeated
from ottla.broker.apis.offset_commit_format import (
    BY_ID,
    Named,
    Request,
    Topic,
    from_entity,
    read_usual,
    write_all_fine,
    write_answer,
)
from ottla.broker.context import Context
from ottla.broker.long_requests import SMALL_BYTES
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.group.offsets import Member, Row
from ottla.coordinator.machine import Outcome
from ottla.coordinator.shard import Haste
from ottla.env.ports import Buffer
from ottla.env.slices import Rows
from ottla.metadata.image import TopicImage
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import Operation, Resource
from ottla.wire.codec import decode_request
from ottla.wire.reply import Later, Message

_KEY: Final = 8
_MANY: Final = 1000  # from here on it is worth to know beforehand whether they fit into a batch
_NONE: Final = ErrorCode.none


_Refused = dict[tuple[int, int], ErrorCode]
"""By the topic's place in the request and the number of the partition."""


def handle(context: Context, body: memoryview) -> Message | Later:
    if len(body) > SMALL_BYTES:
        return context.node.dispatcher.in_slices(context, body, partial(_decode, context))
    version, data = context.header.version, bytes(body)
    node = context.node
    repeated = node.groups.commits_before.find(version, data, node.image)
    if repeated is not None and _may_commit(context, repeated.again):
        return _commit_again(context, repeated)
    request = read_usual(version, data)
    return _answer(context, request, data) if request is not None else _decode(context, data)


def _may_commit(context: Context, again: Again) -> bool:
    return context.allowed(Operation.READ, Resource.GROUP, again.member.group) and context.allowed(
        Operation.READ, Resource.TOPIC, again.topic.name
    )


def _decode(context: Context, body: Buffer) -> Message | Later:
    version = context.header.version
    return _answer(context, from_entity(version, decode_request(_KEY, version, body)))


def _answer(context: Context, request: Request, usual: bytes | None = None) -> Message | Later:
    """With the bytes of one that is as most are: to know it again."""
    refused: _Refused = {}
    commits: list[Row] = []
    if context.allowed(Operation.READ, Resource.GROUP, request.group_id):
        for index, topic in enumerate(request.topics):
            _sort_out(context, index, topic, commits, refused)
    else:
        for index, topic in enumerate(request.topics):
            _refuse(index, topic, ErrorCode.group_authorization_failed, refused)
    if not commits:
        return _frame(context, request, refused, _NONE)
    if usual is not None and not refused and len(request.topics) == 1:
        known = _known(context, request.topics[0].named)
        if isinstance(known, TopicImage):
            node = context.node
            node.groups.commits_before.keep(context.header.version, usual, request, node.image, known)
    return _commit(context, request, commits, refused)


def _sort_out(context: Context, index: int, topic: Topic, commits: list[Row], refused: _Refused) -> None:
    known = _known(context, topic.named)
    if isinstance(known, ErrorCode):
        _refuse(index, topic, known, refused)
        return
    name, topic_id, partitions, metadata = known.name, known.id, known.partitions, topic.metadata
    before = len(commits)
    if metadata is None:
        commits += [
            (name, number, offset, epoch, None, topic_id)
            for number, offset, epoch in topic.rows
            if number in partitions
        ]
    else:
        commits += [
            (name, number, offset, epoch, text, topic_id)
            for (number, offset, epoch), text in zip(Rows(topic.rows), metadata, strict=True)
            if number in partitions
        ]
    if len(commits) - before != len(topic.rows):
        for number, _, _ in topic.rows:
            if number not in partitions:
                refused[index, number] = ErrorCode.unknown_topic_or_partition


def _known(context: Context, named: Named) -> TopicImage | ErrorCode:
    image = context.node.image
    if context.header.version >= BY_ID:
        known = image.topics.get(named) if isinstance(named, UUID) else None
        if known is None:
            return ErrorCode.unknown_topic_id
        name = known.name
    else:
        name = str(named)
        known = image.topic(name)
    if not context.allowed(Operation.READ, Resource.TOPIC, name):
        return ErrorCode.topic_authorization_failed
    return known if known is not None else ErrorCode.unknown_topic_or_partition


def _refuse(index: int, topic: Topic, code: ErrorCode, refused: _Refused) -> None:
    for number, _, _ in topic.rows:
        refused[index, number] = code


def _commit(context: Context, request: Request, commits: list[Row], refused: _Refused) -> Message | Later:
    group_id, generation, member_id, instance_id, kept_ms, _ = request
    member, version = Member(group_id, member_id, instance_id, generation), context.header.version

    def operation(machine: GroupMachine) -> Outcome[ErrorCode | list[ErrorCode]]:
        return machine.offsets.commit(member, commits, version, kept_ms)

    try:
        if len(commits) >= _MANY:
            _check_size(context, group_id, commits, kept_ms)
    except KafkaError as error:
        return _frame(context, request, refused, error.code)
    return _Committing(context, request, refused).begin(operation)


def _commit_again(context: Context, repeated: Repeated) -> Message | Later:
    again, offsets, epochs = repeated
    version = context.header.version

    def operation(machine: GroupMachine) -> Outcome[ErrorCode]:
        return machine.offsets.commit_again(again.member, again.places, offsets, epochs, version)

    return _Committing(context, again.request, {}, again).begin(operation)


class _Committing:
    """The answer, which mostly is there at once."""

    __slots__ = ("_again", "_context", "_later", "_message", "_refused", "_request")

    def __init__(self, context: Context, request: Request, refused: _Refused, again: Again | None = None) -> None:
        self._context = context
        self._request = request
        self._refused = refused
        self._again = again
        self._later: Later | None = None
        self._message: bytes | None = None

    def begin(self, operation: Callable[[GroupMachine], Outcome[Any]]) -> Message | Later:
        try:
            self._context.node.groups.shard_of(self._request.group_id).submit(operation, self._tell, Haste.WHEN_CALM)
        except KafkaError as error:
            return self._frame(error.code)
        if self._message is not None:
            return self._message
        self._later = Later(is_idle=True)
        return self._later

    def _tell(self, result: ErrorCode | list[ErrorCode], error: KafkaError | None) -> None:
        later = self._later
        if later is None:
            self._message = self._made(result, error)
        elif (turn := self._context.connection.turn).is_over():
            turn.postpone(partial(self._complete, later, result, error))
        else:
            self._complete(later, result, error)

    def _complete(self, later: Later, result: ErrorCode | list[ErrorCode], error: KafkaError | None) -> None:
        if not later.done:  # else the client has gone
            later.complete(self._made(result, error))

    def _made(self, result: ErrorCode | list[ErrorCode], error: KafkaError | None) -> bytes:
        request = self._request
        if error is not None:
            return self._frame(error.code)
        if request.member_id and (result is _NONE or not isinstance(result, ErrorCode)):
            context = self._context
            context.node.groups.history.committed(request.group_id, request.member_id, context.connection)
        return self._frame(result)

    def _frame(self, result: ErrorCode | list[ErrorCode]) -> bytes:
        if self._again is not None and result is _NONE:
            return self._again.all_fine(self._context.header.correlation_id)
        return _frame(self._context, self._request, self._refused, result)


def _check_size(context: Context, group_id: str, commits: list[Row], kept_ms: int | None) -> None:
    groups = context.node.groups
    size = groups.read(group_id, lambda machine: machine.offsets.size_of(group_id, commits, kept_ms))
    if size > groups.largest_write(group_id):
        raise KafkaError(ErrorCode.unknown_server_error, "too many offsets for one batch")  # known without trying


def _frame(context: Context, request: Request, refused: _Refused, result: ErrorCode | list[ErrorCode]) -> bytes:
    """What was refused, and what became of the rest: of all of it, or of each."""
    header, topics = context.header, request.topics
    if result is _NONE and not refused:
        return write_all_fine(header.version, header.correlation_id, topics)
    told: dict[tuple[int, Named], list[tuple[int, ErrorCode]]] = {}
    codes = repeat(result) if isinstance(result, ErrorCode) else iter(result)
    rows = [(index, topic.named, number) for index, topic in enumerate(topics) for number, _, _ in topic.rows]
    # Those that are refused come first, as in Kafka's answers. A topic that is named twice comes twice, unless
    # something was refused.
    for index, named, number in Rows(rows):
        if (index, number) in refused:
            told.setdefault((0, named), []).append((number, refused[index, number]))
    for index, named, number in Rows(rows):
        if (index, number) not in refused:
            told.setdefault((0 if refused else index, named), []).append((number, next(codes)))
    if errors := [code for each in told.values() for _, code in each if code is not _NONE]:
        context.count_errors(errors)
    return write_answer(header.version, header.correlation_id, ((named, each) for (_, named), each in told.items()))
