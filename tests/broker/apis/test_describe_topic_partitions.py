"""DescribeTopicPartitions: pages of partitions, and where the next one begins, as Apache Kafka 4.3.0 tells it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis.asking import DESCRIBE_TOPIC_PARTITIONS, ask, create, topic_to_create

from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode, running_node

NO_OPERATIONS = -(2**31)
Told = list[tuple[str, list[int]]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node")) as running:
        wanted = (("d1", 5), ("d2", 3), ("d3", 1))
        create(running.address, *(topic_to_create(name, count) for name, count in wanted))
        yield running


def describe(
    address: str, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> tuple[Any, tuple[str, int] | None]:
    answer = ask(
        address, DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": name} for name in names],
        response_partition_limit=limit,
        cursor=cursor and {"topic_name": cursor[0], "partition_index": cursor[1]},
    )  # fmt: skip
    following = answer.next_cursor
    return answer.topics, following and (following.topic_name, following.partition_index)


def brief(topics: Any) -> Told:
    return [(topic.name, [row.partition_index for row in topic.partitions]) for topic in topics]


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "told", "following"),
    [
        (["d2", "d1", "d1"], 2000, None, [("d1", [0, 1, 2, 3, 4]), ("d2", [0, 1, 2])], None),
        ([], 2000, None, [("d1", [0, 1, 2, 3, 4]), ("d2", [0, 1, 2]), ("d3", [0])], None),
        (["d1", "d2"], 6, None, [("d1", [0, 1, 2, 3, 4]), ("d2", [0])], ("d2", 1)),
        (["d1", "d2"], 5, None, [("d1", [0, 1, 2, 3, 4])], ("d2", 0)),
        (["d1", "zz"], 5, None, [("d1", [0, 1, 2, 3, 4])], ("zz", 0)),
        (["d1"], 5, None, [("d1", [0, 1, 2, 3, 4])], None),
        (["d1"], 0, None, [("d1", [0])], ("d1", 1)),
        (["d1"], -7, None, [("d1", [0])], ("d1", 1)),
        (["d1", "d2"], 2000, ("d1", 3), [("d1", [3, 4]), ("d2", [0, 1, 2])], None),
        (["d1", "d2"], 2000, ("d2", 1), [("d2", [1, 2])], None),
        (["d1", "d2"], 2000, ("d1", 99), [("d1", []), ("d2", [0, 1, 2])], None),
        ([], 2000, ("d2", 1), [("d2", [1, 2]), ("d3", [0])], None),
        ([], 2000, ("d15", 1), [("d2", [0, 1, 2]), ("d3", [0])], None),
        ([], 3, None, [("d1", [0, 1, 2])], ("d1", 3)),
        (["d1", "d25", "d3"], 2000, ("d25", 1), [("d25", []), ("d3", [0])], None),
    ],
)
def test_a_page_and_where_the_next_begins(
    node: RunningNode, names: list[str], limit: int, cursor: tuple[str, int] | None, told: Told,
    following: tuple[str, int] | None,
) -> None:  # fmt: skip
    topics, after = describe(node.address, *names, limit=limit, cursor=cursor)

    assert (brief(topics), after) == (told, following)


def test_pages_put_together_are_everything(node: RunningNode) -> None:
    for limit in (1, 2, 3, 4, 9, 10):
        found: dict[str, list[int]] = {}
        cursor: tuple[str, int] | None = None
        while True:
            topics, cursor = describe(node.address, limit=limit, cursor=cursor)
            for name, numbers in brief(topics):
                found.setdefault(name, []).extend(numbers)
            if cursor is None:
                break
        assert found == {"d1": [0, 1, 2, 3, 4], "d2": [0, 1, 2], "d3": [0]}


def test_a_partition_in_full(node: RunningNode) -> None:
    ((topic,), _) = describe(node.address, "d3")

    (row,) = topic.partitions
    assert (topic.error_code, topic.is_internal, topic.topic_authorized_operations) == (ErrorCode.none, False, 3576)
    assert topic.topic_id == node.on_loop(lambda: node.node.image.topic_ids["d3"])
    assert (row.error_code, row.leader_id, row.leader_epoch) == (ErrorCode.none, 1, 0)
    assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ((1,), (1,), ())
    assert (row.eligible_leader_replicas, row.last_known_elr) == ((), ())


def test_what_is_not_there_is_told_with_an_error(node: RunningNode) -> None:
    topics, _ = describe(node.address, "absent", "bad name", "d3")

    assert [(topic.name, topic.error_code) for topic in topics] == [
        ("absent", ErrorCode.unknown_topic_or_partition),
        ("bad name", ErrorCode.invalid_topic_exception),
        ("d3", ErrorCode.none),
    ]


@pytest.mark.parametrize(
    ("names", "cursor", "code"),
    [
        (["d1", "d2"], ("d15", 0), ErrorCode.invalid_request),  # the cursor's topic must be among them
        (["d3"], ("d2", 1), ErrorCode.invalid_request),
        (["d1", "d2"], ("d1", -1), ErrorCode.invalid_request),
        (["d1", ""], None, ErrorCode.unknown_server_error),
    ],
)
def test_questions_that_make_no_sense(
    node: RunningNode, names: list[str], cursor: tuple[str, int] | None, code: ErrorCode
) -> None:
    topics, _ = describe(node.address, *names, cursor=cursor)

    told = [(topic.name, topic.error_code, topic.topic_authorized_operations) for topic in topics]
    assert told == [(name, code, NO_OPERATIONS) for name in names]


def test_the_broker_has_a_limit_of_its_own(tmp_path: Path) -> None:
    with running_node(tmp_path, max_request_partition_size_limit=2) as node:
        create(node.address, topic_to_create("t", 3))
        topics, cursor = describe(node.address, "t")

    assert (brief(topics), cursor) == ([("t", [0, 1])], ("t", 2))
