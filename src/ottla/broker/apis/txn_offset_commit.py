"""TxnOffsetCommit (key 28): how far a group has come, committed with a producer's transaction or not at all.

Versions: 2 adds leader epochs, 3 is flexible and says which member commits (KIP-447), 4 may tell TRANSACTION_ABORTABLE,
5 is of transactions' second version (KIP-890): nobody has told the coordinator of it, so this does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.txn_partitions import Client, Question
from ottla.coordinator.group.offsets import Commit, Member
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import NO_EPOCH
from ottla.security.authorizer import Operation, Resource

_NONE: Final = ErrorCode.none
_LEADER_EPOCHS: Final = 2
_MEMBERS: Final = 3
_ABORTABLE_FROM: Final = 4
_ADDS_FROM: Final = 5
_NO_SEQUENCE: Final = -1
_Rows = list[tuple[Any, ErrorCode]]
"""Partitions as they were asked about, and what is said to each."""
_RETRIED: Final = {ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress}
"""Clients do not expect the first, and come again after the second without looking for another coordinator."""


async def handle(context: Context, request: Any) -> Any:
    code = _refusal(context, request)
    if code is not _NONE:
        return _respond(context, [(topic.name, [(row, code) for row in topic.partitions]) for topic in request.topics])
    refused: dict[str, _Rows] = {}
    commits: list[tuple[str, list[tuple[Any, Commit]]]] = []
    for topic in request.topics:
        _sort_out(context, topic, refused, commits)
    found: list[tuple[str, _Rows]] = []
    if commits:
        codes = iter(await _commit(context, request, [commit for _, rows in commits for _, commit in rows]))
        found = [(name, [(row, next(codes)) for row, _ in rows]) for name, rows in commits]
    return _respond(context, _merged(refused, found))


def _merged(refused: dict[str, _Rows], found: list[tuple[str, _Rows]]) -> list[tuple[str, _Rows]]:
    """Topics that were named twice are told of twice, unless something of the request was refused beforehand."""
    if not refused:
        return found
    for name, rows in found:
        refused.setdefault(name, []).extend(rows)
    return list(refused.items())


def _refusal(context: Context, request: Any) -> ErrorCode:
    if not context.allowed(Operation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return ErrorCode.transactional_id_authorization_failed
    if not context.allowed(Operation.READ, Resource.GROUP, request.group_id):
        return ErrorCode.group_authorization_failed
    return _NONE


def _sort_out(
    context: Context, topic: Any, refused: dict[str, _Rows], commits: list[tuple[str, list[tuple[Any, Commit]]]]
) -> None:
    known = context.node.image.topic(topic.name)
    if not context.allowed(Operation.READ, Resource.TOPIC, topic.name):
        rows = [(row, ErrorCode.topic_authorization_failed) for row in topic.partitions]
        refused.setdefault(topic.name, []).extend(rows)
        return
    if known is None:
        rows = [(row, ErrorCode.unknown_topic_or_partition) for row in topic.partitions]
        refused.setdefault(topic.name, []).extend(rows)
        return
    found: list[tuple[Any, Commit]] = []
    for row in topic.partitions:
        if row.partition_index not in known.partitions:
            refused.setdefault(topic.name, []).append((row, ErrorCode.unknown_topic_or_partition))
            continue
        epoch = row.committed_leader_epoch if context.version >= _LEADER_EPOCHS else NO_EPOCH
        commit = Commit(
            topic.name, row.partition_index, row.committed_offset, epoch, row.committed_metadata, known.id
        )  # fmt: skip
        found.append((row, commit))
    if found:
        commits.append((topic.name, found))


async def _commit(context: Context, request: Any, commits: list[Commit]) -> list[ErrorCode]:
    found = await _commit_all(context, request, commits)
    return [found] * len(commits) if isinstance(found, ErrorCode) else found


async def _commit_all(context: Context, request: Any, commits: list[Commit]) -> ErrorCode | list[ErrorCode]:
    node, version = context.node, context.version
    if not request.group_id:
        return ErrorCode.invalid_group_id
    member = Member(request.group_id)
    if version >= _MEMBERS:
        member = Member(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    client = Client.ADDED if version >= _ADDS_FROM else Client.VERIFIED if version >= _ABORTABLE_FROM else Client.OF_OLD
    try:
        shard = node.groups.runtime.shard(node.groups.partition_of(request.group_id))
        question = Question(request.transactional_id, producer, client)
        question.add(shard.partition, _NO_SEQUENCE, node.env.clock.now_ms())
        if question.partitions:
            await node.txn_partitions.ask(question)
        for code in question.codes.values():
            return _RETRIED.get(code, code)
        return await shard.write_in_transaction(
            lambda groups: groups.offsets.commit_in_transaction(member, commits), *producer
        )
    except KafkaError as error:
        return error.code


def _respond(context: Context, topics: list[tuple[str, _Rows]]) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        topics=[
            {
                "name": name,
                "partitions": [
                    {"partition_index": row.partition_index, "error_code": _told(context, code)} for row, code in rows
                ],
            }
            for name, rows in topics
        ],
    )


def _told(context: Context, code: ErrorCode) -> ErrorCode:
    """Clients of the first versions fall over COORDINATOR_LOAD_IN_PROGRESS."""
    if context.version < _LEADER_EPOCHS and code is ErrorCode.coordinator_load_in_progress:
        return ErrorCode.coordinator_not_available
    return code
