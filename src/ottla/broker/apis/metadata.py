"""Metadata (key 3): the brokers, and topics with their partitions and leaders. A topic may be created by asking for it.

Versions: 0 asks for all topics by an empty list, 1 by null; 4 lets a client refuse creation, 5 tells offline replicas,
6 LISTENER_NOT_FOUND, 7 leader epochs, 8 what the asker may do with topics and, up to 10, with the cluster (KIP-430),
9 is flexible, 10 tells topic ids, 12 can ask by them (KIP-516), 13 has an error of its own (KIP-1102).

Clients ask again and again, and mostly the same: the answer to a question is encoded once for each metadata image.

Who asks because the connection to a leader has ended asks before the controller knows of it. If this broker has lost
that leader too, a moment ago, the answer is LEADER_NOT_AVAILABLE: the client asks again soon, and is not sent to the
dead. And a broker that was found dead is named for as long as Apache Kafka would name it (`fallen_silent`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.broker.answer_cache import Encoded
from ottla.broker.apis.metadata_format import (
    CLUSTER_OPERATIONS_TO,
    NOT_ASKED_FOR,
    OPERATIONS,
    Answer,
    Row,
    Topic,
    errors_of,
    write_answer,
)
from ottla.broker.brokers import NO_BROKER, any_controller, brokers_on, offline_replicas
from ottla.broker.context import Context
from ottla.env.ports import Buffer
from ottla.env.slices import breathe
from ottla.metadata.controller.topic_names import what_is_wrong
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage
from ottla.model.errors import ErrorCode
from ottla.model.names import INTERNAL_TOPICS
from ottla.security.authorizer import (
    CLUSTER_NAME,
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
    Operation,
    Resource,
    allowed_bits,
)
from ottla.wire.codec import decode_request, response_header
from ottla.wire.reply import Later, Message

_KEY: Final = 3
_SIZE: Final = Struct(">i")
_NONE: Final = ErrorCode.none


class _Wanted(NamedTuple):
    """What is asked for: all topics, or some by name, or some by id."""

    all: bool = False
    names: tuple[str, ...] = ()
    ids: tuple[UUID, ...] = ()


class _Gone(NamedTuple):
    """Brokers that most likely are no more, as far as it was known when the question came."""

    leaders: frozenset[int]
    still_named: frozenset[int]


class _Found(NamedTuple):
    topics: list[Topic]
    to_create: list[str]


def handle(context: Context, body: memoryview) -> Message | Later:
    node = context.node
    gone = _Gone(node.replicas.lost_leaders, node.fallen_silent.ids)
    question = (context.version, context.listener, context.principal, gone, bytes(body))
    answer = node.metadata_answers.get(node.image, question)
    if answer is None:
        return node.dispatcher.in_slices(context, body, partial(_find_out, context, gone, question))
    return _frame(context, answer)


def _find_out(context: Context, gone: _Gone, question: Hashable, body: Buffer) -> bytes:
    image = context.node.image
    version = context.version
    told, is_repeatable = _answer(context, image, gone, decode_request(_KEY, version, body))
    answer = Encoded(write_answer(version, told), tuple(errors_of(version, told)))
    if is_repeatable:
        context.node.metadata_answers.put(image, question, len(body), answer)
    return _frame(context, answer)


def _frame(context: Context, answer: Encoded) -> bytes:
    if answer.errors:
        context.count_errors(answer.errors)
    header = response_header(_KEY, context.version, context.header.correlation_id)
    return _SIZE.pack(len(header) + len(answer.data)) + header + answer.data


def _answer(context: Context, image: MetadataImage, gone: _Gone, request: Any) -> tuple[Answer, bool]:
    """The answer, and whether the same question can be given it again."""
    wanted = _wanted(context.version, request)
    if isinstance(wanted, ErrorCode):
        return _refusal(request, wanted), True
    found = _find(context, image, gone.leaders, request, wanted)
    if found.to_create:
        context.node.auto_create.start(found.to_create)
    topics = found.topics
    if context.version >= OPERATIONS and request.include_topic_authorized_operations:
        topics = [_with_operations(context, topic) for topic in topics]
    answer = Answer(
        brokers_on(image, context.listener, gone.still_named),
        context.node.cluster_id,
        any_controller(image, context.node.env.random),
        topics,
        _cluster_operations(context, request),
    )
    return answer, not found.to_create


def _with_operations(context: Context, topic: Topic) -> Topic:
    breathe()
    if topic.name is None or topic.code in (ErrorCode.unknown_topic_id, ErrorCode.topic_authorization_failed):
        return topic
    bits = allowed_bits(context.node.authorizer, context.principal, TOPIC_OPERATIONS, Resource.TOPIC, topic.name)
    return topic._replace(operations=bits)


def _wanted(version: int, request: Any) -> _Wanted | ErrorCode:
    topics = request.topics
    if topics is None or (version == 0 and not topics):
        return _Wanted(all=True)
    if version < 10:
        return _Wanted(names=tuple(dict.fromkeys(topic.name for topic in topics)))
    if version < 12 and any(topic.name is None or topic.topic_id is not None for topic in topics):
        return ErrorCode.invalid_request  # there are ids in these versions, but only in answers
    ids = tuple(dict.fromkeys(topic.topic_id for topic in topics if topic.topic_id is not None))
    if ids:
        return _Wanted(ids=ids)
    if any(topic.name is None for topic in topics):
        return ErrorCode.unknown_server_error  # what Kafka makes of a topic with neither name nor id
    return _Wanted(names=tuple(dict.fromkeys(topic.name for topic in topics)))


def _refusal(request: Any, code: ErrorCode) -> Answer:
    topics = [_without_partitions(code, topic.name or "", topic.topic_id) for topic in request.topics]
    return Answer([], None, NO_BROKER, topics, code=code)


def _cluster_operations(context: Context, request: Any) -> int:
    if not OPERATIONS <= context.version <= CLUSTER_OPERATIONS_TO or not request.include_cluster_authorized_operations:
        return NOT_ASKED_FOR
    if not context.allowed(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return allowed_bits(context.node.authorizer, context.principal, CLUSTER_OPERATIONS, Resource.CLUSTER, CLUSTER_NAME)


# -- topics


def _find(context: Context, image: MetadataImage, lost: frozenset[int], request: Any, wanted: _Wanted) -> _Found:
    def visible(name: str) -> bool:
        return context.allowed(Operation.DESCRIBE, Resource.TOPIC, name)

    if wanted.all:
        topics = [topic for topic in image.topics.values() if visible(topic.name)]
        return _Found([_topic(context, image, lost, topic) for topic in topics], [])
    found = _Found([], [])
    for topic_id in wanted.ids:
        known = image.topics.get(topic_id)
        if known is None:
            found.topics.append(_without_partitions(ErrorCode.unknown_topic_id, None, topic_id))
        elif not visible(known.name):  # an id is no secret, the name may be
            found.topics.append(_without_partitions(ErrorCode.topic_authorization_failed, None, topic_id))
        else:
            found.topics.append(_topic(context, image, lost, known))
    missing: list[str] = []
    for name in wanted.names:
        if not visible(name):  # not even whether it exists is told
            found.topics.append(_without_partitions(ErrorCode.topic_authorization_failed, name))
        elif (known := image.topic(name)) is not None:
            found.topics.append(_topic(context, image, lost, known))
        else:
            missing.append(name)
    may_create = context.node.config.auto_create_topics_enable and (
        context.version < 4 or request.allow_auto_topic_creation
    )
    _add_missing(context, missing, may_create, found)
    return found


def _add_missing(context: Context, names: Iterable[str], may_create: bool, found: _Found) -> None:
    """KRaft answers UNKNOWN_TOPIC_OR_PARTITION while a topic is being created; LEADER_NOT_AVAILABLE was ZooKeeper's."""
    create_any = may_create and context.allowed(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME)
    for name in names:
        breathe()
        if may_create and not create_any and not context.allowed(Operation.CREATE, Resource.TOPIC, name):
            code = ErrorCode.topic_authorization_failed
        elif what_is_wrong(name) is not None:
            code = ErrorCode.invalid_topic_exception
        else:
            code = ErrorCode.unknown_topic_or_partition
            if may_create:
                found.to_create.append(name)
        found.topics.append(_without_partitions(code, name))


def _without_partitions(code: ErrorCode, name: str | None, topic_id: UUID | None = None) -> Topic:
    is_internal = name in INTERNAL_TOPICS and code is not ErrorCode.topic_authorization_failed
    return Topic(code, name, topic_id, is_internal, ())


def _topic(context: Context, image: MetadataImage, lost: frozenset[int], topic: TopicImage) -> Topic:
    rows = [
        _partition(context, image, lost, number, partition) for number, partition in sorted(topic.partitions.items())
    ]
    return Topic(_NONE, topic.name, topic.id, topic.name in INTERNAL_TOPICS, rows)


def _partition(
    context: Context, image: MetadataImage, lost: frozenset[int], number: int, partition: PartitionImage
) -> Row:
    breathe()
    listener, version = context.listener, context.version
    leader = image.brokers.get(partition.leader)
    replicas, isr = partition.replicas, partition.isr
    code = _NONE
    if version == 0:  # which knows replicas that are not alive as an error, and nothing of those that are left out
        alive = {broker.id for broker in brokers_on(image, listener)}
        replicas = tuple(replica for replica in replicas if replica in alive)
        isr = tuple(replica for replica in isr if replica in alive)
        if len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
            code = ErrorCode.replica_not_available
    if leader is None or partition.leader in lost:
        code = ErrorCode.leader_not_available
    elif leader.endpoint(listener) is None:
        code = ErrorCode.listener_not_found if version >= 6 else ErrorCode.leader_not_available
    led = code in (_NONE, ErrorCode.replica_not_available)
    offline = offline_replicas(image, partition, listener)
    return Row(
        code, number, partition.leader if led else NO_LEADER, partition.leader_epoch, replicas, isr, tuple(offline)
    )
