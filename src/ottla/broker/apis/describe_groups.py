"""DescribeGroups (key 15): classic groups with their members and what each was assigned.

Versions: 1 and 2 say nothing new, 3 tells what the asker may do, 4 tells instance ids, 5 is flexible, 6 has an error
for a group that is not there (KIP-1043), which is only Dead before.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.coordinator.group.classic.requests import DescribedGroup
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import GROUP_OPERATIONS, Operation, Resource, allowed_bits

_TELLS_OPERATIONS: Final = 3
_KNOWS_ABSENCE: Final = 6


def handle(context: Context, request: Any) -> Any:
    wants_operations = context.version >= _TELLS_OPERATIONS and request.include_authorized_operations
    refused = {group_id: None for group_id in request.groups if not _may(context, group_id)}
    groups = [_row(DescribedGroup(group_id, ""), ErrorCode.group_authorization_failed) for group_id in refused]
    for group_id in request.groups:
        if group_id in refused:
            continue
        row = _describe(context, group_id)
        if wants_operations and row["error_code"] is ErrorCode.none:
            row["authorized_operations"] = allowed_bits(
                context.node.authorizer, context.principal, GROUP_OPERATIONS, Resource.GROUP, group_id
            )
        groups.append(row)
    return context.respond(throttle_time=timedelta(0), groups=groups)


def _may(context: Context, group_id: str) -> bool:
    return context.allowed(Operation.DESCRIBE, Resource.GROUP, group_id)


def _describe(context: Context, group_id: str) -> dict[str, Any]:
    try:
        group = context.node.groups.read(group_id, lambda machine: machine.classic.describe(group_id))
    except KafkaError as error:
        return _row(DescribedGroup(group_id, ""), error.code)
    if group.exists or context.version < _KNOWS_ABSENCE:
        return _row(group, ErrorCode.none)
    return _row(group, ErrorCode.group_id_not_found, group.why_absent)


def _row(group: DescribedGroup, code: ErrorCode, message: str | None = None) -> dict[str, Any]:
    return {
        "error_code": code,
        "error_message": message,
        "group_id": group.group_id,
        "group_state": group.state,
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client.id,
                "client_host": member.client.host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in group.members
        ],
    }
