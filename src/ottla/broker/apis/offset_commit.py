"""OffsetCommit (key 8): how far a group has come, kept for it.

Versions: 2 is the oldest, 2 to 4 let a client set how long offsets are kept, 6 adds the leader epoch, 7 the instance
(KIP-345), 8 is flexible, 9 tells GROUP_ID_NOT_FOUND and is for members of both protocols, 10 names topics by id.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.broker.apis.offset_commit_format import BY_ID, write_answer
from ottla.broker.context import Api, Context, Waiting
from ottla.coordinator.group.offsets import Commit, Member
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import Operation, Resource

_OWN_RETENTION: Final = 4  # the last version in which a client can say how long
_INSTANCES: Final = 7
_LEADER_EPOCHS: Final = 6
_MANY: Final = 1000  # from here on it is worth to know beforehand whether they fit into a batch
_ONE_MS: Final = timedelta(milliseconds=1)
_NONE: Final = ErrorCode.none
_Name = UUID | str


class _Place(NamedTuple):
    """Where in the request a commit stands."""

    row: int
    topic: _Name
    partition: int


def handle(context: Context, request: Any) -> bytes | Waiting:
    if not context.allowed(Operation.READ, Resource.GROUP, request.group_id):
        return _refuse_all(context, request, ErrorCode.group_authorization_failed)
    answer = _Answer(context)
    commits: list[Commit] = []
    places: list[_Place] = []
    for index, topic in enumerate(request.topics):
        _sort_out(context, index, topic, answer, commits, places)
    return answer.frame() if not commits else _commit(context, request, commits, places, answer)


def _sort_out(
    context: Context, index: int, topic: Any, answer: _Answer, commits: list[Commit], places: list[_Place]
) -> None:
    """What can be committed goes to the commits, what cannot into the answer."""
    image = context.node.image
    named = topic.topic_id if context.version >= BY_ID else topic.name
    known = image.topics.get(named) if context.version >= BY_ID else image.topic(named)
    if known is None and context.version >= BY_ID:
        answer.add(named, topic.partitions, ErrorCode.unknown_topic_id)
    elif not context.allowed(Operation.READ, Resource.TOPIC, known.name if known is not None else named):
        answer.add(named, topic.partitions, ErrorCode.topic_authorization_failed)
    elif known is None:
        answer.add(named, topic.partitions, ErrorCode.unknown_topic_or_partition)
    else:
        epochs = context.version >= _LEADER_EPOCHS
        for row in topic.partitions:
            number = row.partition_index
            if number not in known.partitions:
                answer.add(named, (row,), ErrorCode.unknown_topic_or_partition)
                continue
            epoch = row.committed_leader_epoch if epochs else -1
            commits.append(
                Commit(known.name, number, row.committed_offset, epoch, row.committed_metadata, known.id)
            )  # fmt: skip
            places.append(_Place(index, named, number))


def _commit(
    context: Context, request: Any, commits: list[Commit], places: list[_Place], answer: _Answer
) -> bytes | Waiting:
    version = context.version
    instance_id = request.group_instance_id if version >= _INSTANCES else None
    member = Member(request.group_id, request.member_id, instance_id, request.generation_id_or_member_epoch)
    retention_ms = request.retention_time // _ONE_MS if version <= _OWN_RETENTION else -1
    kept_ms = None if retention_ms == -1 else retention_ms

    def tell(told: asyncio.Future[ErrorCode | list[ErrorCode]]) -> bytes:
        return finish(error.code if isinstance(error := told.exception(), KafkaError) else told.result())

    def finish(result: ErrorCode | list[ErrorCode]) -> bytes:
        codes = [result] * len(commits) if isinstance(result, ErrorCode) else result
        answer.add_committed(places, codes)
        if member.id and not isinstance(result, ErrorCode):
            context.node.groups.history.committed(member.group, member.id, context.connection)
        return answer.frame()

    try:
        if len(commits) >= _MANY:
            _check_size(context, member.group, commits, kept_ms)
        told = context.node.groups.submit(
            request.group_id, lambda machine: machine.offsets.commit(member, commits, version, kept_ms)
        )
    except KafkaError as error:
        return finish(error.code)
    return Waiting(told, tell)


def _check_size(context: Context, group_id: str, commits: list[Commit], kept_ms: int | None) -> None:
    groups = context.node.groups
    size = groups.read(group_id, lambda machine: machine.offsets.size_of(group_id, commits, kept_ms))
    if size > groups.largest_write(group_id):
        raise KafkaError(ErrorCode.unknown_server_error, "too many offsets for one batch")  # known without trying


def _refuse_all(context: Context, request: Any, code: ErrorCode) -> bytes:
    answer = _Answer(context)
    for topic in request.topics:
        answer.add(topic.topic_id if context.version >= BY_ID else topic.name, topic.partitions, code)
    return answer.frame()


class _Answer:
    """Partitions by topic; those that are refused come first, as in Kafka's answers.

    A topic that the request names twice comes twice, unless something was refused.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topics: dict[tuple[int, _Name], list[tuple[int, ErrorCode]]] = {}
        self._errors: list[ErrorCode] = []

    def add(self, named: _Name, rows: Any, code: ErrorCode) -> None:
        for row in rows:
            self._put(0, named, row.partition_index, code)

    def add_committed(self, places: list[_Place], codes: list[ErrorCode]) -> None:
        apart = not self._topics
        for (index, named, partition), code in zip(places, codes, strict=True):
            self._put(index if apart else 0, named, partition, code)

    def _put(self, index: int, named: _Name, partition: int, code: ErrorCode) -> None:
        self._topics.setdefault((index, named), []).append((partition, code))
        if code is not _NONE:
            self._errors.append(code)

    def frame(self) -> bytes:
        if self._errors:
            self._context.count_errors(self._errors)
        header = self._context.header
        topics = [(named, rows) for (_, named), rows in self._topics.items()]
        return write_answer(header.version, header.correlation_id, topics)


API: Final = Api(8, "OffsetCommit", oldest=2, newest=10, handle=handle)
