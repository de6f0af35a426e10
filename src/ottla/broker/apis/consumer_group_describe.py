"""ConsumerGroupDescribe (key 69): consumer groups with their epochs, members, and what each has and is to have.

Versions (KIP-848): 1 tells which protocol a member speaks (KIP-1099).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from ottla.broker.context import Context
from ottla.broker.group_requests import serves_consumer_groups
from ottla.coordinator.group.consumer.requests import DescribedGroup, DescribedMember
from ottla.env.slices import Rows
from ottla.metadata.image import MetadataImage
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import GROUP_OPERATIONS, Operation, Resource, allowed_bits

_CLASSIC, _CONSUMER = 0, 1
_Row = dict[str, Any]


def handle(context: Context, request: Any) -> Any:
    if not serves_consumer_groups(context.node):
        rows = [_error(group_id, ErrorCode.unsupported_version) for group_id in request.group_ids]
        return context.respond(throttle_time=timedelta(0), groups=rows)
    refused = {
        group_id: None
        for group_id in request.group_ids
        if not context.allowed(Operation.DESCRIBE, Resource.GROUP, group_id)
    }
    rows = [_error(group_id, ErrorCode.group_authorization_failed) for group_id in refused]
    for group_id in request.group_ids:
        if group_id in refused:
            continue
        row = _describe(context, group_id)
        if request.include_authorized_operations and row["error_code"] is ErrorCode.none:
            row["authorized_operations"] = allowed_bits(
                context.node.authorizer, context.principal, GROUP_OPERATIONS, Resource.GROUP, group_id
            )
        rows.append(_hide_topics(context, row))
    return context.respond(throttle_time=timedelta(0), groups=rows)


def _describe(context: Context, group_id: str) -> _Row:
    if not group_id:
        return _error(group_id, ErrorCode.invalid_group_id)
    try:
        group = context.node.groups.read(group_id, lambda machine: machine.consumer.describe(group_id))
    except KafkaError as error:
        message = error.message if error.code is ErrorCode.group_id_not_found else None
        return _error(group_id, error.code, message)
    return _row(group, context.node.image)


def _hide_topics(context: Context, row: _Row) -> _Row:
    """Who may not see a topic that members have or are to have does not see the members."""
    if all(context.allowed(Operation.DESCRIBE, Resource.TOPIC, topic) for topic in _topics_in(row)):
        return row
    message = "The group has described topic(s) that the client is not authorized to describe."
    return row | {"error_code": ErrorCode.topic_authorization_failed, "error_message": message, "members": []}


def _row(group: DescribedGroup, image: MetadataImage) -> _Row:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "group_id": group.group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "assignor_name": group.assignor,
        "members": [_member(described, image) for described in Rows(group.members)],
    }


def _member(described: DescribedMember, image: MetadataImage) -> _Row:
    member = described.member
    has = {
        topic_id: [*member.assigned.get(topic_id, ()), *member.revoking.get(topic_id, ())]
        for topic_id in {**member.assigned, **member.revoking}
    }
    return {
        "member_id": member.id,
        "instance_id": member.instance_id,
        "rack_id": member.rack,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": tuple(sorted(member.topics)),
        "subscribed_topic_regex": member.pattern,
        "assignment": _assignment(has, image),
        "target_assignment": _assignment(described.target, image),
        "member_type": _CONSUMER if member.classic is None else _CLASSIC,
    }


def _assignment(partitions: Mapping[UUID, Collection[int]], image: MetadataImage) -> _Row:
    """Topics that are gone are left out."""
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": topic.name, "partitions": tuple(sorted(numbers))}
            for topic_id, numbers in partitions.items()
            if (topic := image.topics.get(topic_id)) is not None
        ]
    }


def _topics_in(row: _Row) -> dict[str, None]:
    names: dict[str, None] = {}
    for member in Rows(row["members"]):
        for assignment in (member["assignment"], member["target_assignment"]):
            names |= {topic["topic_name"]: None for topic in assignment["topic_partitions"]}
    return names


def _error(group_id: str, code: ErrorCode, message: str | None = None) -> _Row:
    return {
        "error_code": code,
        "error_message": message,
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
    }
