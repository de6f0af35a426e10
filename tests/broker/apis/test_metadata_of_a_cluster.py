"""What Metadata says of brokers that are fenced, gone or not on the client's listener: with an image made up here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.broker.answer_cache import AnswerCache
from ottla.broker.apis import metadata
from ottla.broker.apis.metadata_format import Answer, write_answer
from ottla.broker.context import Context
from ottla.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import ANONYMOUS, AllowAll
from ottla.wire.build import build, request_type
from ottla.wire.codec import (
    RequestHeader,
    decode_response,
    encode_body,
    response_body_position,
)
from ottla.wire.reply import Later, Message

DISK, OTHER_DISK = UUID(int=1000), UUID(int=1001)
ORDERS = UUID(int=5000)


class Node:
    """As much of a node as Metadata looks at."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.authorizer = AllowAll()
        self.cluster_id = "cluster"
        self.config = SimpleNamespace(auto_create_topics_enable=False)
        self.env = SimpleNamespace(random=SimpleNamespace(below=lambda n: n - 1))
        self.metadata_answers = AnswerCache()
        self.replicas = SimpleNamespace(lost_leaders=frozenset())
        self.fallen_silent = SimpleNamespace(ids=frozenset())
        self.dispatcher = SimpleNamespace(
            stats={3: SimpleNamespace(fail=lambda codes: None)}, in_slices=lambda context, body, answer: answer(body)
        )


def broker(number: int, *listeners: str, fenced: bool = False) -> BrokerImage:
    endpoints = tuple(Endpoint(name, f"host-{number}", 9092, 0) for name in listeners)
    return BrokerImage(number, 1, UUID(int=number), endpoints, {}, f"rack-{number}", fenced, False, (DISK,))


def partition(
    leader: int, replicas: tuple[int, ...], directories: tuple[UUID, ...] = (), isr: tuple[int, ...] = ()
) -> PartitionImage:
    return PartitionImage(replicas, directories or (DISK,) * len(replicas), isr or replicas, leader, 7, 0)


def image_of(*partitions: PartitionImage) -> MetadataImage:
    brokers = (broker(1, "IN", "OUT"), broker(2, "IN", "OUT", fenced=True), broker(3, "IN"))
    return MetadataImage(
        brokers={each.id: each for each in brokers},
        topics={ORDERS: TopicImage(ORDERS, "orders", dict(enumerate(partitions)))},
        topic_ids={"orders": ORDERS},
    )


def ask(node: Node, version: int = 13, listener: str = "OUT") -> Any:
    request = build(
        request_type(3, version),
        {
            "topics": [{"name": "orders", "topic_id": None}],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
            "include_cluster_authorized_operations": False,
        },
    )
    header = RequestHeader(3, version, 1, "test", 0)
    context = Context(cast(Any, node), cast(Any, SimpleNamespace(listener=listener)), header, ANONYMOUS)
    frame = memoryview(_found_out(metadata.handle(context, memoryview(encode_body(request)))))[4:]
    return decode_response(3, version, frame[response_body_position(3, version, frame) :])


def _found_out(answer: Message | Later) -> bytes:
    assert isinstance(answer, bytes)
    return answer


def test_fenced_brokers_and_those_without_the_listener_are_not_told() -> None:
    node = Node(image_of())

    assert [(each.node_id, each.rack) for each in ask(node).brokers] == [(1, "rack-1")]
    assert [each.node_id for each in ask(node, listener="IN").brokers] == [1, 3]


def test_replicas_are_offline_if_their_broker_or_its_disk_is() -> None:
    replicas = (1, 2, 3, 4)
    spread = partition(1, replicas)
    disks = partition(1, (1, 1, 1), (DIRECTORY_LOST, OTHER_DISK, DIRECTORY_MIGRATING))
    node = Node(image_of(spread, disks))

    (topic,) = ask(node, listener="IN").topics

    assert topic.partitions[0].offline_replicas == (2, 4)  # fenced; not registered
    assert topic.partitions[1].offline_replicas == (1, 1)  # lost; not among the broker's disks


@pytest.mark.parametrize(
    ("version", "leader", "code"),
    [
        (13, 1, ErrorCode.none),
        (13, 9, ErrorCode.leader_not_available),
        (13, -1, ErrorCode.leader_not_available),
        (6, 3, ErrorCode.listener_not_found),
        (5, 3, ErrorCode.leader_not_available),
    ],
)
def test_a_leader_that_the_client_cannot_reach(version: int, leader: int, code: ErrorCode) -> None:
    node = Node(image_of(partition(leader, (1, 3))))

    (told,) = ask(node, version).topics[0].partitions

    assert told.error_code is code
    assert told.leader_id == (leader if code is ErrorCode.none else -1)
    assert told.replica_nodes == (1, 3)


@pytest.mark.parametrize("version", [0, 7, 13])
def test_nobody_is_sent_to_a_leader_that_was_lost_a_moment_ago(version: int) -> None:
    node = Node(image_of(partition(1, (1,)), partition(1, (1,))))
    (before, _) = ask(node, version).topics[0].partitions

    node.replicas.lost_leaders = frozenset({1})
    (while_lost, _) = ask(node, version).topics[0].partitions
    node.replicas.lost_leaders = frozenset()
    (after, _) = ask(node, version).topics[0].partitions

    assert (before.error_code, before.leader_id) == (ErrorCode.none, 1)
    assert (while_lost.error_code, while_lost.leader_id) == (ErrorCode.leader_not_available, -1)
    assert after == before


def test_version_0_leaves_out_replicas_that_are_not_alive_and_says_so() -> None:
    node = Node(image_of(partition(1, (1, 2)), partition(1, (1,))))

    missing, complete = ask(node, 0).topics[0].partitions

    assert (missing.error_code, missing.leader_id, missing.replica_nodes) == (ErrorCode.replica_not_available, 1, (1,))
    assert complete.error_code is ErrorCode.none


def test_the_same_question_is_encoded_once_for_each_image(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[Any] = []

    def write(version: int, answer: Answer) -> bytes:
        encoded.append(answer)
        return write_answer(version, answer)

    monkeypatch.setattr(metadata, "write_answer", write)
    node = Node(image_of(partition(1, (1,))))

    answers = [ask(node), ask(node), ask(node, version=12), ask(node, listener="IN"), ask(node)]
    assert len(encoded) == 3
    assert answers[0] == answers[1] == answers[4]

    node.image = image_of(partition(1, (1,)), partition(1, (1,)))
    assert len(ask(node).topics[0].partitions) == 2
    assert len(encoded) == 4
