"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, stays, tells what it wants and has, or leaves.

Versions (KIP-848): 1 has patterns, and members choose their id themselves (KIP-1082); in 0 one may be given to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from ottla.broker.context import Context, Waiting
from ottla.broker.group_requests import client_of, code_of, heard, milliseconds, serves_consumer_groups, submit
from ottla.coordinator.group.consumer.members import AWAY, JOINING, LEFT
from ottla.coordinator.group.consumer.requests import NOT_SAID, HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.group.machine import assignors_of
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import Operation, Resource

_HAS_PATTERN: Final = 1
_NO_ID: Final = UUID(int=0)


def handle(context: Context, request: Any) -> Any:
    if not serves_consumer_groups(context.node):
        return _refuse(context, ErrorCode.unsupported_version)
    if not context.allowed(Operation.READ, Resource.GROUP, request.group_id):
        return _refuse(context, ErrorCode.group_authorization_failed)
    if not all(_may_see(context, topic) for topic in request.subscribed_topic_names or ()):
        return _refuse(context, ErrorCode.topic_authorization_failed)
    try:
        _check(context, request)
    except KafkaError as error:
        return _refuse(context, error.code, error.message)
    heartbeat = _read(context, request)
    told = submit(context, heartbeat.group_id, lambda machine: machine.consumer.heartbeat(heartbeat))
    if heartbeat.epoch >= 0:
        heard(context, heartbeat.group_id, heartbeat.member_id)
    return Waiting(told, lambda told: _respond(context, told))


def _may_see(context: Context, topic: str) -> bool:
    return context.allowed(Operation.DESCRIBE, Resource.TOPIC, topic)


def _check(context: Context, request: Any) -> None:
    epoch = request.member_epoch
    if context.version >= _HAS_PATTERN or epoch > 0 or epoch == LEFT:
        _demand_text(request.member_id, "MemberId can't be empty.")
    _demand_text(request.group_id, "GroupId can't be empty.")
    _demand_text(request.instance_id, "InstanceId can't be empty.")
    _demand_text(request.rack_id, "RackId can't be empty.")
    if epoch == JOINING:
        pattern = request.subscribed_topic_regex if context.version >= _HAS_PATTERN else None
        _demand(
            milliseconds(request.rebalance_timeout) != NOT_SAID, "RebalanceTimeoutMs must be provided in first request."
        )
        _demand(request.topic_partitions == (), "TopicPartitions must be empty when (re-)joining.")
        _demand(
            request.subscribed_topic_names is not None or pattern is not None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    elif epoch == AWAY:
        _demand(request.instance_id is not None, "InstanceId can't be null.")
    else:
        _demand(epoch > AWAY, "MemberEpoch is invalid.")
    if request.server_assignor is not None:
        _check_assignor(request.server_assignor, assignors_of(context.node.config))


def _check_assignor(name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise KafkaError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {name} is not supported. Supported assignors: {', '.join(known)}.",
        )


def _demand_text(value: str | None, otherwise: str) -> None:
    _demand(value is None or bool(value.strip()), otherwise)


def _demand(is_so: bool, otherwise: str) -> None:
    if not is_so:
        raise KafkaError(ErrorCode.invalid_request, otherwise)


def _read(context: Context, request: Any) -> HeartbeatRequest:
    owned: dict[UUID, list[int]] | None = None
    if request.topic_partitions is not None:
        owned = {}
        for topic in request.topic_partitions:
            owned.setdefault(topic.topic_id or _NO_ID, []).extend(topic.partitions)
    topics = request.subscribed_topic_names
    return HeartbeatRequest(
        request.group_id,
        request.member_id,
        request.member_epoch,
        client_of(context),
        request.instance_id,
        request.rack_id,
        milliseconds(request.rebalance_timeout),
        None if topics is None else frozenset(topics),
        request.subscribed_topic_regex if context.version >= _HAS_PATTERN else None,
        request.server_assignor,
        owned,
        lambda topic: _may_see(context, topic),
    )


def _respond(context: Context, told: asyncio.Future[HeartbeatAnswer]) -> Any:
    code = code_of(told)
    if code is not ErrorCode.none:
        error = told.exception()
        return _refuse(context, code, error.message if isinstance(error, KafkaError) else None)
    answer = told.result()
    assignment = None
    if answer.assigned is not None:
        topics = [
            {"topic_id": topic_id, "partitions": tuple(partitions)} for topic_id, partitions in answer.assigned.items()
        ]
        assignment = {"topic_partitions": topics}
    return context.respond(
        throttle_time=timedelta(0),
        error_code=ErrorCode.none,
        error_message=None,
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval=timedelta(milliseconds=answer.heartbeat_interval_ms),
        assignment=assignment,
    )


def _refuse(context: Context, code: ErrorCode, message: str | None = None) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        error_code=code,
        error_message=message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=timedelta(0),
        assignment=None,
    )
