"""ElectLeaders, DescribeQuorum, UpdateFeatures, UnregisterBroker and reassignments, as a single node answers them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import ask, create, list_offset, metadata, topic_to_create
from tests.broker.watching import health

from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode, running_node

SOON = timedelta(seconds=60)
NOT_NEEDED, UNKNOWN = ErrorCode.election_not_needed, ErrorCode.unknown_topic_or_partition


def elect(
    address: str,
    asked: list[tuple[str, list[int]]] | None,
    kind: int = 0,
    *,
    version: int = 2,
    within: timedelta = SOON,
) -> tuple[ErrorCode | None, dict[str, list[tuple[int, ErrorCode]]]]:
    rows = None if asked is None else [{"topic": topic, "partitions": numbers} for topic, numbers in asked]
    answer = ask(
        address, asking.ELECT_LEADERS, version, election_type=kind, topic_partitions=rows, timeout=within
    )  # fmt: skip
    told = {
        row.topic: [(result.partition_id, result.error_code) for result in row.partition_result]
        for row in answer.replica_election_results
    }
    return getattr(answer, "error_code", None), told


def test_the_only_replica_leads_already(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)

    for kind in (0, 1):
        code, told = elect(address, [(topic, [0, 1, 9]), ("absent", [0])], kind)
        assert code is ErrorCode.none
        assert told == {topic: [(0, NOT_NEEDED), (1, NOT_NEEDED), (9, UNKNOWN)], "absent": [(0, UNKNOWN)]}
        assert elect(address, None, kind)[1][topic] == []
    assert elect(address, [(topic, [0])], version=0) == (None, {topic: [(0, NOT_NEEDED)]})


def test_elections_that_make_no_sense(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    invalid, late = ErrorCode.invalid_request, ErrorCode.request_timed_out
    assert elect(address, [(topic, [0])], 5) == (invalid, {topic: [(0, invalid)]})
    assert elect(address, [(topic, [0])], within=timedelta(0)) == (late, {topic: [(0, late)]})
    assert elect(address, []) == (ErrorCode.none, {})


def quorum(address: str, *asked: tuple[str, list[int]], version: int = 2) -> Any:
    topics = [
        {"topic_name": name, "partitions": [{"partition_index": number} for number in numbers]}
        for name, numbers in asked
    ]
    return ask(address, asking.DESCRIBE_QUORUM, version, topics=topics)


def test_the_quorum_is_this_node(node: RunningNode) -> None:
    answer = quorum(node.address, ("__cluster_metadata", [0]))

    (told,) = answer.topics[0].partitions
    assert (told.error_code, told.leader_id, told.observers) == (ErrorCode.none, 1, ())
    assert told.leader_epoch == node.on_loop(lambda: node.node.raft.epoch)
    (voter,) = told.current_voters
    assert voter.replica_id == 1
    assert voter.log_end_offset == told.high_watermark == node.on_loop(lambda: node.node.image.offset) + 1
    assert abs(voter.last_fetch_timestamp / 1000 - time.time()) < 60
    assert [listed.node_id for listed in answer.nodes] == [1]


@pytest.mark.parametrize(
    "asked",
    [
        [("other", [0])],
        [("__cluster_metadata", [1])],
        [("__cluster_metadata", [0, 1])],
        [("__cluster_metadata", [0]), ("other", [0])],
    ],
)
@pytest.mark.parametrize("version", [0, 2])
def test_there_is_one_quorum_only(address: str, asked: list[tuple[str, list[int]]], version: int) -> None:
    answer = quorum(address, *asked, version=version)

    assert answer.error_code is ErrorCode.none
    assert {row.error_code for topic in answer.topics for row in topic.partitions} == {UNKNOWN}


def update(
    address: str, *updates: tuple[str, int, int], version: int = 2, within: timedelta = SOON, check: bool = False
) -> Any:
    rows = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind != 1}
        for name, level, kind in updates
    ]
    return ask(
        address, asking.UPDATE_FEATURES, version, timeout=within, feature_updates=rows, validate_only=check
    )  # fmt: skip


@pytest.mark.parametrize("version", range(3))
def test_features_are_updated_all_or_none(address: str, version: int) -> None:
    same, strange = ("metadata.version", 30, 1), ("no.such", 1, 1)

    good, bad = update(address, same, version=version), update(address, same, strange, version=version)

    assert (good.error_code, good.error_message) == (ErrorCode.none, None)
    assert bad.error_code is ErrorCode.invalid_update_version
    assert "no.such" in bad.error_message
    if version < 2:
        assert [(row.feature, row.error_code) for row in good.results] == [("metadata.version", ErrorCode.none)]
        assert bad.results == ()


def test_version_0_asks_for_a_downgrade_by_a_flag(address: str) -> None:
    refused = update(address, ("metadata.version", 29, 2), version=0)

    assert refused.error_code is ErrorCode.invalid_update_version
    assert "might delete metadata information" in refused.error_message


def test_features_need_no_time(address: str) -> None:
    assert update(address, within=timedelta(0)).error_code is ErrorCode.none


def test_a_broker_that_is_not_there_cannot_be_unregistered(address: str) -> None:
    answer = ask(address, asking.UNREGISTER_BROKER, 0, broker_id=9)

    assert answer.error_code is ErrorCode.broker_id_not_registered
    assert answer.error_message == "Broker ID 9 is not currently registered"


def test_a_node_that_was_unregistered_says_so_and_is_back_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with running_node(tmp_path, ottla_metrics_listener="127.0.0.1:0") as node:
        create(node.address, topic_to_create("t"))
        answer = ask(node.address, asking.UNREGISTER_BROKER, 0, broker_id=1)
        assert answer.error_code is ErrorCode.none
        status, told = health(node, "ready")
        assert metadata(node.address, "t").brokers == ()
        assert (status, told["state"]) == (503, "unregistered")
        assert "this node was unregistered" in caplog.text and "Restart it" in caplog.text

    with running_node(tmp_path) as node:
        assert [broker.node_id for broker in metadata(node.address, "t").brokers] == [1]
        assert list_offset(node.address, "t", -1).error_code is ErrorCode.none


def reassign(address: str, topic: str, *rows: tuple[int, list[int] | None], within: timedelta = SOON) -> Any:
    partitions = [{"partition_index": number, "replicas": replicas} for number, replicas in rows]
    topics = [{"name": topic, "partitions": partitions}]
    return ask(
        address, asking.ALTER_PARTITION_REASSIGNMENTS, 1, topics=topics, timeout=within,
        allow_replication_factor_change=True,
    )  # fmt: skip


def test_there_is_nowhere_to_move_replicas_to(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)

    answer = reassign(address, topic, (0, [1]), (1, None), (2, [1, 2]), (9, [1]))

    assert answer.error_code is ErrorCode.none
    assert [(row.partition_index, row.error_code) for row in answer.responses[0].partitions] == [
        (0, ErrorCode.none),
        (1, ErrorCode.no_reassignment_in_progress),
        (2, ErrorCode.invalid_replica_assignment),
        (9, UNKNOWN),
    ]
    late = reassign(address, topic, (0, [1]), within=timedelta(0))
    assert late.error_code is late.responses[0].partitions[0].error_code is ErrorCode.request_timed_out


@pytest.mark.parametrize("asked", [None, [], [("absent", [0])], [("t", [0])]])
def test_nothing_is_being_moved(address: str, asked: list[tuple[str, list[int]]] | None) -> None:
    rows = None if asked is None else [{"name": name, "partition_indexes": numbers} for name, numbers in asked]

    answer = ask(address, asking.LIST_PARTITION_REASSIGNMENTS, 0, topics=rows, timeout=SOON)

    assert (answer.error_code, answer.topics) == (ErrorCode.none, ())
