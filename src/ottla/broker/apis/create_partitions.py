"""CreatePartitions (key 37): more partitions for topics, through the controller.

Versions: 2 is flexible, 3 may be throttled (KIP-599). Old records stay where they are, so a key that is hashed may go
to another partition from then on.

An answer means that the partitions are committed and that this node serves its part of them.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.controller_call import call_controller
from ottla.metadata.controller.requests import CreatePartitions, NewPartitions
from ottla.metadata.controller.result import ApiError
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource

_FORBIDDEN: Final = ApiError(ErrorCode.topic_authorization_failed)


async def handle(context: Context, request: Any) -> Any:
    names = Counter(topic.name for topic in request.topics)
    forbidden = {
        name: _FORBIDDEN
        for name, count in names.items()
        if count == 1 and not context.allowed(Operation.ALTER, Resource.TOPIC, name)
    }
    wanted = tuple(_wanted(topic) for topic in request.topics if topic.name not in forbidden)
    outcomes = list(forbidden.items())
    if wanted:
        outcome = await call_controller(context, CreatePartitions(wanted, request.validate_only), request.timeout)
        if isinstance(outcome, ApiError):
            outcomes += ((name, outcome) for name in dict.fromkeys(topic.topic for topic in wanted))
        else:
            outcomes += outcome
    return context.respond(
        throttle_time=timedelta(0),
        results=[{"name": name, "error_code": error.code, "error_message": error.message} for name, error in outcomes],
    )


def _wanted(topic: Any) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        topic.name, topic.count, None if assignments is None else tuple(tuple(row.broker_ids) for row in assignments)
    )
