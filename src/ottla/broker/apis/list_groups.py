"""ListGroups (key 16): the groups that this broker coordinates.

Versions: 1 and 2 say nothing new, 3 is flexible, 4 tells states and can ask for some (KIP-518), 5 does so with types
(KIP-848).
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from functools import partial
from typing import Any, Final

from ottla.broker.context import Context
from ottla.coordinator.group.classic.requests import ListedGroup
from ottla.coordinator.group.consumer.group import TYPE as CONSUMER_TYPE
from ottla.coordinator.group.machine import GroupMachine
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_HAS_STATES: Final = 4
_HAS_TYPES: Final = 5
_CLASSIC: Final = "classic"


def handle(context: Context, request: Any) -> Any:
    states = request.states_filter if context.version >= _HAS_STATES else ()
    types = {kind.lower() for kind in request.types_filter} if context.version >= _HAS_TYPES else set()
    groups: list[ListedGroup] = []
    for shard in context.node.groups.runtime.active:
        try:
            groups += shard.read(partial(_list, states, types))
        except KafkaError as error:
            if error.code is not ErrorCode.not_coordinator:
                return context.respond(throttle_time=timedelta(0), error_code=error.code, groups=[])
    if not context.allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        groups = [group for group in groups if context.allowed(Operation.DESCRIBE, Resource.GROUP, group.group_id)]
    rows = [
        {
            "group_id": group.group_id,
            "protocol_type": group.protocol_type,
            "group_state": group.state,
            "group_type": group.type,
        }
        for group in groups
    ]
    return context.respond(throttle_time=timedelta(0), error_code=ErrorCode.none, groups=rows)


def _list(states: Collection[str], types: Collection[str], machine: GroupMachine) -> list[ListedGroup]:
    groups: list[ListedGroup] = []
    if not types or _CLASSIC in types:
        groups += machine.classic.list(states)
    if not types or CONSUMER_TYPE in types:
        groups += machine.consumer.list(states)
    return groups
