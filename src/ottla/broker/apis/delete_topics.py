"""DeleteTopics (key 20): topics are no more, through the controller.

Versions: 1 is the oldest, 3 tells apart that deletion is disabled, 4 is flexible, 5 adds messages and may be throttled
(KIP-599), 6 names topics by name or by id (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.controller_call import call_controller
from ottla.metadata.controller.requests import DeleteTopics, TopicDeleted, TopicRef
from ottla.metadata.controller.result import ApiError
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_FORBIDDEN: Final = ApiError(ErrorCode.topic_authorization_failed, "deleting this topic is not allowed")
_DISABLED: Final = "deleting topics is disabled (delete.topic.enable)"


async def handle(context: Context, request: Any) -> Any:
    refs = _refs(context, request)
    if not context.node.config.delete_topic_enable:
        code = ErrorCode.topic_deletion_disabled if context.version >= 3 else ErrorCode.invalid_request
        return _answer(context, [TopicDeleted(*ref, ApiError(code, _DISABLED)) for ref in refs])
    forbidden = _forbidden(context, refs)
    allowed = tuple(ref for ref in refs if ref not in forbidden)
    replies = list(forbidden.values())
    if allowed:
        outcome = await call_controller(context, DeleteTopics(allowed), request.timeout)
        if isinstance(outcome, ApiError):
            replies += (TopicDeleted(*ref, outcome) for ref in dict.fromkeys(allowed))
        else:
            replies += outcome
    return _answer(context, replies)


def _refs(context: Context, request: Any) -> list[TopicRef]:
    if context.version >= 6:
        return [TopicRef(topic.name, topic.topic_id) for topic in request.topics]
    return [TopicRef(name) for name in request.topic_names]


def _forbidden(context: Context, refs: list[TopicRef]) -> dict[TopicRef, TopicDeleted]:
    """Answers for topics that the asker may not delete; they do not tell whether one that is hidden exists."""
    if context.allowed(Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME):
        return {}
    counts = Counter(refs)
    forbidden: dict[TopicRef, TopicDeleted] = {}
    for ref in refs:
        if counts[ref] > 1 or (ref.name is None) == (ref.topic_id is None):
            continue  # refused by the controller, whoever asks
        name = ref.name if ref.name is not None else context.node.replicas.name_of(ref.topic_id)
        if name is None:
            continue  # no topic has this id
        seen = context.allowed(Operation.DESCRIBE, Resource.TOPIC, name)
        if ref.name is not None and seen and context.node.image.topic(name) is None:
            continue
        if not context.allowed(Operation.DELETE, Resource.TOPIC, name):
            forbidden[ref] = TopicDeleted(name if seen else ref.name, ref.topic_id, _FORBIDDEN)
    return forbidden


def _answer(context: Context, replies: list[TopicDeleted]) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        responses=[
            {
                "name": reply.name,
                "topic_id": reply.topic_id,
                "error_code": reply.error.code,
                "error_message": reply.error.message,
            }
            for reply in replies
        ],
    )
