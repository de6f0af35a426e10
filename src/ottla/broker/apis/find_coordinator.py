"""FindCoordinator (key 10): which broker coordinates a group, a transactional id or a share partition.

Versions: 1 adds transactional ids, 3 is flexible, 4 asks for many keys at once (KIP-699), 6 adds share partitions
(KIP-932). A group's coordinator is the leader of its partition of `__consumer_offsets`, a transactional id's that of
its partition of `__transaction_state`; the first who asks has the topic created, and is told to ask again. Share
partitions have no coordinator yet.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, NamedTuple

from ottla.broker.brokers import NO_BROKER
from ottla.broker.context import Context
from ottla.metadata.meta_properties import parse_uuid
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import OFFSETS_TOPIC, TRANSACTION_TOPIC, TopicPartition
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_GROUP: Final = 0
_TRANSACTION: Final = 1
_SHARE: Final = 2
_MANY_KEYS: Final = 4
_SHARE_PARTITIONS: Final = 6
_MESSAGES: Final = {
    ErrorCode.invalid_request: "this type of key, or this key, is not one that has a coordinator",
    ErrorCode.coordinator_not_available: "there is no coordinator for this key",
}


class _Found(NamedTuple):
    node_id: int
    host: str
    port: int


_NOBODY: Final = _Found(NO_BROKER, "", -1)


def handle(context: Context, request: Any) -> Any:
    key_type = request.key_type if context.version >= 1 else _GROUP
    if context.version < _MANY_KEYS:
        return context.respond(throttle_time=timedelta(0), **_answer(context, key_type, request.key))
    coordinators = [{"key": key, **_answer(context, key_type, key)} for key in request.coordinator_keys]
    return context.respond(throttle_time=timedelta(0), coordinators=coordinators)


def _answer(context: Context, key_type: int, key: str) -> dict[str, Any]:
    found = _find(context, key_type, key)
    code = ErrorCode.none
    if isinstance(found, ErrorCode):
        code, found = found, _NOBODY
    return {"error_code": code, "error_message": _MESSAGES.get(code, ""), **found._asdict()}


def _find(context: Context, key_type: int, key: str) -> _Found | ErrorCode:
    if key_type == _GROUP:
        if not context.allowed(Operation.DESCRIBE, Resource.GROUP, key):
            return ErrorCode.group_authorization_failed
        return _leader(context, OFFSETS_TOPIC, lambda: context.node.groups.partition_of(key))
    if key_type == _TRANSACTION:
        if not context.allowed(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, key):
            return ErrorCode.transactional_id_authorization_failed
        return _leader(context, TRANSACTION_TOPIC, lambda: context.node.txns.partition_of(key))
    if key_type != _SHARE or context.version < _SHARE_PARTITIONS:
        return ErrorCode.invalid_request
    if not context.allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return ErrorCode.cluster_authorization_failed
    if not _is_share_partition(key):
        return ErrorCode.invalid_request
    return ErrorCode.coordinator_not_available


def _leader(context: Context, name: str, number: Callable[[], int]) -> _Found | ErrorCode:
    node, image = context.node, context.node.image
    topic = image.topic(name)
    if topic is None:
        node.auto_create.start([name])
        return ErrorCode.coordinator_not_available
    try:
        key = TopicPartition(name, number())
    except KafkaError as error:
        return error.code
    partition = topic.partitions.get(key.partition)
    if partition is not None and partition.leader == node.config.node_id:
        replica = node.replicas.by_name.get(key)
        if replica is None or not replica.is_leader:  # it is about to be: who came now would be sent away
            return ErrorCode.coordinator_not_available
    leader = image.brokers.get(partition.leader) if partition is not None else None
    endpoint = leader.endpoint(context.listener) if leader is not None and not leader.fenced else None
    if leader is None or endpoint is None:
        return ErrorCode.coordinator_not_available
    return _Found(leader.id, endpoint.host, endpoint.port)


def _is_share_partition(key: str) -> bool:
    """`group:topic id:partition`; the group's name may itself contain colons."""
    parts = key.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not parts[2].isdecimal():
        return False
    try:
        parse_uuid(parts[1])
    except ValueError:
        return False
    return True
