"""Who may not: the error that Kafka gives, and nothing told that should stay hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.altering import change, changed, replace, replaced
from tests.broker.apis.asking import ask, create, list_offset, metadata, topic_to_create

from ottla.model.errors import ErrorCode
from ottla.security.authorizer import AllowAll, Operation, Principal, Resource
from ottla.testing.node import RunningNode

IN_TIME = timedelta(seconds=60)


class Deny:
    """Everything is allowed but these; a topic's name is given where only that one is meant."""

    def __init__(self, *denied: tuple[Operation, Resource] | tuple[Operation, Resource, str]) -> None:
        self._denied = set(denied)

    def allows(self, principal: Principal, operation: Operation, resource: Resource, name: str) -> bool:
        return (operation, resource) not in self._denied and (operation, resource, name) not in self._denied


@contextmanager
def denying(node: RunningNode, *denied: Any) -> Iterator[None]:
    """The cache of Metadata answers goes with the image, as ACLs are part of it: a new topic stands for a new image."""

    def change(authorizer: Any) -> None:
        node.node.authorizer = authorizer

    node.on_loop(lambda: change(Deny(*denied)))
    try:
        yield
    finally:
        node.on_loop(lambda: change(AllowAll()))


def codes(answer: Any) -> dict[str | None, ErrorCode]:
    return {topic.name: topic.error_code for topic in answer.topics}


def test_metadata_hide_a_topic_that_may_not_be_described(node: RunningNode, new_topic: Callable[..., str]) -> None:
    hidden, seen = new_topic(), new_topic()
    topic_id = metadata(node.address, hidden).topics[0].topic_id
    with denying(node, (Operation.DESCRIBE, Resource.TOPIC, hidden), (Operation.DESCRIBE, Resource.TOPIC, "absent")):
        everything = codes(metadata(node.address, version=12))
        by_name = metadata(node.address, hidden, "absent", seen)
        by_id = metadata(node.address, topic_id)

    assert hidden not in everything
    assert seen in everything
    assert codes(by_name) == {
        hidden: ErrorCode.topic_authorization_failed,
        "absent": ErrorCode.topic_authorization_failed,
        seen: ErrorCode.none,
    }
    assert {topic.topic_id for topic in by_name.topics if topic.error_code} == {None}
    assert [(topic.name, topic.error_code) for topic in by_id.topics] == [(None, ErrorCode.topic_authorization_failed)]


def test_metadata_create_no_topic_for_someone_who_may_not(node: RunningNode, new_topic: Callable[..., str]) -> None:
    with denying(
        node, (Operation.CREATE, Resource.CLUSTER), (Operation.CREATE, Resource.TOPIC, "forbidden")
    ):  # fmt: skip
        answer = metadata(node.address, "forbidden", "permitted", create=True)

    assert codes(answer) == {
        "forbidden": ErrorCode.topic_authorization_failed,
        "permitted": ErrorCode.unknown_topic_or_partition,
    }
    assert "forbidden" not in codes(metadata(node.address))


def test_operations_that_are_not_allowed_are_missing_from_the_bits(
    node: RunningNode, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    with denying(node, (Operation.WRITE, Resource.TOPIC), (Operation.DESCRIBE, Resource.CLUSTER)):
        answer = metadata(
            node.address, topic, version=9,
            include_topic_authorized_operations=True, include_cluster_authorized_operations=True,
        )  # fmt: skip

    bits = answer.topics[0].topic_authorized_operations
    assert bits & 1 << Operation.READ
    assert not bits & 1 << Operation.WRITE
    assert answer.cluster_authorized_operations == 0


def test_creating_needs_the_cluster_or_the_topic(node: RunningNode) -> None:
    with denying(node, (Operation.CREATE, Resource.CLUSTER), (Operation.CREATE, Resource.TOPIC, "not-mine")):
        answer = create(node.address, topic_to_create("not-mine"), topic_to_create("mine"))

    assert codes(answer) == {"not-mine": ErrorCode.topic_authorization_failed, "mine": ErrorCode.none}


def test_a_new_topics_configs_are_told_to_those_who_may_describe_them(node: RunningNode) -> None:
    with denying(node, (Operation.DESCRIBE_CONFIGS, Resource.TOPIC)):
        (topic,) = create(node.address, topic_to_create("secretive")).topics

    assert (topic.error_code, topic.topic_config_error_code) == (
        ErrorCode.none,
        ErrorCode.topic_authorization_failed.value,
    )
    assert (topic.num_partitions, topic.configs) == (-1, ())


def test_deleting_does_not_tell_whether_a_hidden_topic_exists(node: RunningNode, new_topic: Callable[..., str]) -> None:
    hidden, seen = new_topic(), new_topic()
    ids = {topic.name: topic.topic_id for topic in metadata(node.address, hidden, seen).topics}
    unseen = ((Operation.DESCRIBE, Resource.TOPIC, name) for name in (hidden, "absent"))
    refs = [(hidden, None), ("absent", None), (seen, None), (None, ids[hidden]), (None, ids[seen]), ("nowhere", None)]
    with denying(node, (Operation.DELETE, Resource.CLUSTER), (Operation.DELETE, Resource.TOPIC), *unseen):
        topics = [{"name": name, "topic_id": topic_id} for name, topic_id in refs]
        answer = ask(node.address, asking.DELETE_TOPICS, 6, topics=topics, timeout=IN_TIME)

    assert {(row.name, row.topic_id, row.error_code) for row in answer.responses} == {
        (hidden, None, ErrorCode.topic_authorization_failed),
        ("absent", None, ErrorCode.topic_authorization_failed),
        (seen, None, ErrorCode.topic_authorization_failed),
        (None, ids[hidden], ErrorCode.topic_authorization_failed),
        (seen, ids[seen], ErrorCode.topic_authorization_failed),
        ("nowhere", None, ErrorCode.unknown_topic_or_partition),
    }
    assert set(codes(metadata(node.address, hidden, seen)).values()) == {ErrorCode.none}


def test_offsets_need_describe_on_the_topic(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    row = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
    question = {"replica_id": -1, "topics": [{"topic": topic, "partitions": [row]}]}
    with denying(node, (Operation.DESCRIBE, Resource.TOPIC)):
        offset = list_offset(node.address, topic, -1)
        as_broker = ask(node.address, asking.OFFSET_FOR_LEADER_EPOCH, 4, **question)
    with denying(node, (Operation.DESCRIBE, Resource.TOPIC), (Operation.CLUSTER_ACTION, Resource.CLUSTER)):
        as_client = ask(node.address, asking.OFFSET_FOR_LEADER_EPOCH, 4, **question)

    assert offset.error_code is ErrorCode.topic_authorization_failed
    assert as_broker.topics[0].partitions[0].error_code is ErrorCode.none
    assert as_client.topics[0].partitions[0].error_code is ErrorCode.topic_authorization_failed


@pytest.mark.parametrize(
    ("denied", "transactional_id", "code"),
    [
        (
            [(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER)],
            None,
            ErrorCode.none,
        ),  # who may write to a topic may do this
        (
            [(Operation.IDEMPOTENT_WRITE, Resource.CLUSTER), (Operation.WRITE, Resource.TOPIC)],
            None,
            ErrorCode.cluster_authorization_failed,
        ),
        ([(Operation.WRITE, Resource.TRANSACTIONAL_ID)], "t", ErrorCode.transactional_id_authorization_failed),
    ],
)
def test_a_producer_id_needs_a_right_to_write(
    node: RunningNode, new_topic: Callable[..., str], denied: Any, transactional_id: str | None, code: ErrorCode
) -> None:
    new_topic()
    with denying(node, *denied):
        answer = ask(
            node.address, asking.INIT_PRODUCER_ID, 5, transactional_id=transactional_id, transaction_timeout=IN_TIME
        )

    assert answer.error_code is code


EVERY_KIND = pytest.mark.parametrize(
    ("kind", "name", "resource", "code"),
    [
        (2, "any", Resource.TOPIC, ErrorCode.topic_authorization_failed),
        (4, "1", Resource.CLUSTER, ErrorCode.cluster_authorization_failed),
        (8, "1", Resource.CLUSTER, ErrorCode.cluster_authorization_failed),
        (16, "any", Resource.CLUSTER, ErrorCode.cluster_authorization_failed),
        (32, "any", Resource.GROUP, ErrorCode.group_authorization_failed),
    ],
)


@EVERY_KIND
def test_configs_need_describe_configs(
    node: RunningNode, kind: int, name: str, resource: Resource, code: ErrorCode
) -> None:
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None}]
    with denying(node, (Operation.DESCRIBE_CONFIGS, resource)):
        answer = ask(
            node.address, asking.DESCRIBE_CONFIGS, 4,
            resources=resources, include_synonyms=False, include_documentation=False,
        )  # fmt: skip

    assert [(result.error_code, result.configs) for result in answer.results] == [(code, ())]


@pytest.mark.parametrize(
    ("key_type", "operation", "resource", "code"),
    [
        (0, Operation.DESCRIBE, Resource.GROUP, ErrorCode.group_authorization_failed),
        (1, Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, ErrorCode.transactional_id_authorization_failed),
        (2, Operation.CLUSTER_ACTION, Resource.CLUSTER, ErrorCode.cluster_authorization_failed),
    ],
)
def test_coordinators_are_told_to_those_who_may_know_the_key(
    node: RunningNode, key_type: int, operation: Operation, resource: Resource, code: ErrorCode
) -> None:
    with denying(node, (operation, resource)):
        answer = ask(node.address, asking.FIND_COORDINATOR, 6, key_type=key_type, coordinator_keys=["key"])

    assert [row.error_code for row in answer.coordinators] == [code]


def test_cluster_operations_are_none_for_those_who_may_not_describe_it(node: RunningNode) -> None:
    with denying(node, (Operation.DESCRIBE, Resource.CLUSTER)):
        answer = ask(
            node.address,
            asking.DESCRIBE_CLUSTER,
            2,
            include_cluster_authorized_operations=True,
            include_fenced_brokers=False,
        )

    assert answer.cluster_authorized_operations == 0


@EVERY_KIND
def test_configs_are_changed_by_those_who_may(
    node: RunningNode, kind: int, name: str, resource: Resource, code: ErrorCode
) -> None:
    with denying(node, (Operation.ALTER_CONFIGS, resource)):
        ((new_way, _),) = change(node.address, changed(kind, name))
        ((old_way, _),) = replace(node.address, replaced(kind, name, {}))

    assert new_way is code
    assert old_way is (ErrorCode.invalid_request if kind == 8 else code)  # levels are not for the old way


def test_a_form_that_is_wrong_is_told_before_what_is_not_allowed(node: RunningNode) -> None:
    """As in Kafka, where the broker looks at the form and the controller at the rights."""
    with denying(node, (Operation.ALTER_CONFIGS, Resource.CLUSTER)):
        ((code, _),) = change(node.address, changed(4, "1", ("num.partitions", 0, "5")))

    assert code is ErrorCode.invalid_request


def test_partitions_are_added_by_those_who_may_alter_the_topic(
    node: RunningNode, new_topic: Callable[..., str]
) -> None:
    mine, other = new_topic(), new_topic()
    rows = [{"name": name, "count": 2, "assignments": None} for name in (mine, other)]
    with denying(node, (Operation.ALTER, Resource.TOPIC, other)):
        answer = ask(node.address, asking.CREATE_PARTITIONS, 3, topics=rows, timeout=IN_TIME, validate_only=False)

    assert {row.name: row.error_code for row in answer.results} == {
        mine: ErrorCode.none,
        other: ErrorCode.topic_authorization_failed,
    }


def test_pages_of_topics_hide_what_may_not_be_described(node: RunningNode, new_topic: Callable[..., str]) -> None:
    hidden, seen = new_topic(), new_topic()
    page: dict[str, Any] = {"response_partition_limit": 100, "cursor": None}
    with denying(node, (Operation.DESCRIBE, Resource.TOPIC, hidden), (Operation.DESCRIBE, Resource.TOPIC, "absent")):
        everything = ask(node.address, asking.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], **page)
        names = [{"name": name} for name in (hidden, "absent", seen)]
        some = ask(node.address, asking.DESCRIBE_TOPIC_PARTITIONS, 0, topics=names, **page)

    assert hidden not in codes(everything)
    assert codes(some) == {
        seen: ErrorCode.none,
        hidden: ErrorCode.topic_authorization_failed,
        "absent": ErrorCode.topic_authorization_failed,
    }
    assert {topic.topic_id for topic in some.topics if topic.error_code} == {None}


@pytest.mark.parametrize(
    ("operation", "api", "question"),
    [
        (Operation.ALTER, asking.ELECT_LEADERS, {"election_type": 0, "topic_partitions": None, "timeout": IN_TIME}),
        (Operation.ALTER, asking.UPDATE_FEATURES, {
            "timeout": IN_TIME, "feature_updates": [], "validate_only": True,
        }),
        (Operation.ALTER, asking.UNREGISTER_BROKER, {"broker_id": 1}),
        (Operation.ALTER, asking.ALTER_PARTITION_REASSIGNMENTS, {"timeout": IN_TIME, "topics": []}),
        (Operation.DESCRIBE, asking.LIST_PARTITION_REASSIGNMENTS, {"timeout": IN_TIME, "topics": None}),
        (Operation.DESCRIBE, asking.DESCRIBE_QUORUM, {"topics": []}),
        (Operation.DESCRIBE_CONFIGS, asking.LIST_CONFIG_RESOURCES, {"resource_types": []}),
    ],
)  # fmt: skip
def test_the_cluster_is_administered_by_those_who_may(
    node: RunningNode, operation: Operation, api: int, question: dict[str, Any]
) -> None:
    newest = node.node.dispatcher.apis[api].newest
    with denying(node, (operation, Resource.CLUSTER)):
        refused = ask(node.address, api, newest, **question)

    assert refused.error_code is ErrorCode.cluster_authorization_failed
    assert node.on_loop(lambda: 1 in node.node.image.brokers)
