"""Log dirs that get no new partitions (KIP-1066), as Apache Kafka 4.3.0 does it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis.altering import BROKER, set_config
from tests.broker.apis.asking import (
    ALTER_REPLICA_LOG_DIRS,
    CREATE_PARTITIONS,
    DESCRIBE_LOG_DIRS,
    ask,
    create,
    topic_to_create,
)
from tests.waiting import until

from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode, running_node

SOON = timedelta(seconds=60)


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    return [str(tmp_path / name) for name in ("first", "second")]


@pytest.fixture
def node(folders: list[str]) -> Iterator[RunningNode]:
    with running_node(Path(folders[0]), log_dirs=",".join(folders)) as running:
        yield running


def cordon(node: RunningNode, value: str | None) -> None:
    """Waits until the controller has been told."""
    set_config(node.address, BROKER, "1", cordoned_log_dirs=value)
    config = node.on_loop(lambda: node.node.config)
    expected = {each.id for each in node.node.logs.dirs if config.is_cordoned(each.path)}
    until(
        lambda: node.on_loop(lambda: set(node.node.image.brokers[1].cordoned_directories or ())) == expected,
        "the controller is told",
    )


def made(node: RunningNode, name: str, partitions: int = 1, **values: Any) -> ErrorCode:
    code: ErrorCode = create(node.address, topic_to_create(name, partitions, **values)).topics[0].error_code
    return code


def lying(node: RunningNode, folder: str) -> tuple[bool, set[tuple[str, int]]]:
    """Whether a dir is cordoned, and the partitions in it."""
    for told in ask(node.address, DESCRIBE_LOG_DIRS, 5, topics=None).results:
        if told.log_dir == folder:
            rows = {(topic.name, row.partition_index) for topic in told.topics for row in topic.partitions}
            return told.is_cordoned, rows
    raise AssertionError(f"{folder} is not told of")


def test_new_partitions_go_to_dirs_that_are_not_cordoned(node: RunningNode, folders: list[str]) -> None:
    cordon(node, folders[0])

    assert made(node, "t", 4) is ErrorCode.none

    assert lying(node, folders[0]) == (True, set())
    assert lying(node, folders[1]) == (False, {("t", number) for number in range(4)})
    cordon(node, None)
    assert made(node, "u", 2) is ErrorCode.none
    assert lying(node, folders[0]) == (False, {("u", 0), ("u", 1)})


def test_what_lies_in_a_cordoned_dir_stays_and_nothing_is_moved_there(node: RunningNode, folders: list[str]) -> None:
    made(node, "t", 2)
    before = lying(node, folders[0])[1]
    cordon(node, folders[0])
    (elsewhere,) = lying(node, folders[1])[1]

    dirs = [{"path": folders[0], "topics": [{"name": "t", "partitions": [elsewhere[1]]}]}]
    (topic,) = ask(node.address, ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs).results

    assert topic.partitions[0].error_code is ErrorCode.invalid_replica_assignment
    assert lying(node, folders[0])[1] == before


def test_with_all_dirs_cordoned_partitions_are_only_placed_by_hand(node: RunningNode) -> None:
    made(node, "t")
    cordon(node, "*")

    def grown(count: int, assignments: list[dict[str, Any]] | None) -> ErrorCode:
        topics = [{"name": "t", "count": count, "assignments": assignments}]
        answer = ask(node.address, CREATE_PARTITIONS, 3, topics=topics, timeout=SOON, validate_only=False)
        code: ErrorCode = answer.results[0].error_code
        return code

    assert made(node, "u") is ErrorCode.invalid_replication_factor
    assert grown(2, None) is ErrorCode.invalid_replication_factor
    by_hand = {"assignments": [{"partition_index": 0, "broker_ids": [1]}], "replication_factor": -1}
    assert made(node, "v", -1, **by_hand) is ErrorCode.none
    assert grown(2, [{"broker_ids": [1]}]) is ErrorCode.none


def test_a_dir_is_cordoned_by_a_file_too_and_after_a_restart(folders: list[str]) -> None:
    with running_node(Path(folders[0]), log_dirs=",".join(folders), cordoned_log_dirs=folders[1]) as node:
        assert made(node, "t", 3) is ErrorCode.none
        assert len(lying(node, folders[0])[1]) == 3
        cordon(node, folders[0])  # for this broker, over the file

    with running_node(Path(folders[0]), log_dirs=",".join(folders), cordoned_log_dirs=folders[1]) as node:
        assert made(node, "u", 2) is ErrorCode.none
        assert lying(node, folders[1])[1] == {("u", 0), ("u", 1)}
