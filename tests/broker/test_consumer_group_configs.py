"""Configs of consumer groups (KIP-848), the broker's and a group's own: with another value, something else happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.broker.apis.altering import GROUP, SET, change, changed, set_config
from tests.broker.apis.asking import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT, ask, create, topic_to_create
from tests.broker.apis.committing import await_coordinator
from tests.waiting import attempts, until

from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode, running_node


@contextmanager
def serving(folder: Path, **settings: str | int) -> Iterator[RunningNode]:
    with running_node(folder, offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0, **settings) as node:
        create(node.address, topic_to_create("t"))
        await_coordinator(node.address)
        yield node


def heartbeat(node: RunningNode, member: str = "me", epoch: int = 0, **values: Any) -> Any:
    """Of a member that joins, or of one that is there."""
    joins: dict[str, Any] = {
        "group_id": "group", "member_id": member, "member_epoch": epoch, "instance_id": None, "rack_id": None,
        "rebalance_timeout": timedelta(seconds=60) if epoch == 0 else timedelta(milliseconds=-1),
        "subscribed_topic_names": ["t"] if epoch == 0 else None, "subscribed_topic_regex": None,
        "server_assignor": None, "topic_partitions": [] if epoch == 0 else None,
    }  # fmt: skip
    return ask(node.address, CONSUMER_GROUP_HEARTBEAT, 1, **joins | values)


@pytest.mark.parametrize(
    ("settings", "own", "interval_ms"),
    [
        ({}, None, 5000),
        ({"group_consumer_heartbeat_interval_ms": 7000}, None, 7000),
        ({"group_consumer_heartbeat_interval_ms": 7000}, "6000", 6000),
    ],
)
def test_members_are_told_how_often_to_send_heartbeats(
    tmp_path: Path, settings: dict[str, int], own: str | None, interval_ms: int
) -> None:
    with serving(tmp_path, **settings) as node:
        if own is not None:
            set_config(node.address, GROUP, "group", consumer_heartbeat_interval_ms=own)
        answer = heartbeat(node)

    assert (answer.error_code, answer.heartbeat_interval) == (ErrorCode.none, timedelta(milliseconds=interval_ms))


def members(node: RunningNode) -> list[str]:
    (described,) = ask(
        node.address, CONSUMER_GROUP_DESCRIBE, 1, group_ids=["group"], include_authorized_operations=False
    ).groups
    return [member.member_id for member in described.members]


SHORT = {
    "group_consumer_min_session_timeout_ms": 300, "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 100,
}  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "own", "is_missed"),
    [
        (SHORT, None, False),
        (SHORT | {"group_consumer_session_timeout_ms": 300}, None, True),
        (SHORT, "300", True),
    ],
    ids=["default", "the broker's", "its own"],
)
def test_who_is_silent_for_the_session_timeout_is_no_member_any_more(
    tmp_path: Path, settings: dict[str, int], own: str | None, is_missed: bool
) -> None:
    with serving(tmp_path, **settings) as node:
        if own is not None:
            set_config(node.address, GROUP, "group", consumer_session_timeout_ms=own)
        assert heartbeat(node).error_code is ErrorCode.none
        if is_missed:
            until(lambda: not members(node))
        else:
            time.sleep(1)
        code = heartbeat(node, epoch=1).error_code

    assert (code in (ErrorCode.unknown_member_id, ErrorCode.group_id_not_found)) is is_missed


@pytest.mark.parametrize(
    ("bound", "config", "value"),
    [
        ("group_consumer_min_session_timeout_ms", "consumer.session.timeout.ms", 46_000),
        ("group_consumer_max_session_timeout_ms", "consumer.session.timeout.ms", 50_000),
        ("group_consumer_min_heartbeat_interval_ms", "consumer.heartbeat.interval.ms", 6000),
        ("group_consumer_max_heartbeat_interval_ms", "consumer.heartbeat.interval.ms", 8000),
        ("group_consumer_min_assignment_interval_ms", "consumer.assignment.interval.ms", 2000),
        ("group_consumer_max_assignment_interval_ms", "consumer.assignment.interval.ms", 5000),
    ],
)
def test_a_group_may_set_what_lies_within_the_brokers_bounds(
    tmp_path: Path, bound: str, config: str, value: int
) -> None:
    def outcome(name: str, **settings: int) -> ErrorCode:
        with running_node(tmp_path / name, **settings) as node:
            ((code, _),) = change(node.address, changed(GROUP, "group", (config, SET, str(value))))
        return code

    beyond = value + 1 if "_min_" in bound else value - 1
    broker_has = {bound.replace("_min_", "_").replace("_max_", "_"): beyond} if "_min_" in bound else {}
    assert outcome("as it is") is ErrorCode.none
    assert outcome("bound", **{bound: beyond}, **broker_has) is ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("settings", "own", "interval_ms"),
    [
        ({}, None, 1000),
        ({"group_consumer_assignment_interval_ms": 2500}, None, 2500),
        ({"group_consumer_assignment_interval_ms": 2500}, "1500", 1500),
    ],
)
def test_assignments_are_worked_out_no_more_often_than_the_interval_says(
    tmp_path: Path, settings: dict[str, int], own: str | None, interval_ms: int
) -> None:
    with serving(tmp_path, **settings) as node:
        if own is not None:
            set_config(node.address, GROUP, "group", consumer_assignment_interval_ms=own)
        found = node.on_loop(
            lambda: [
                shard.machine.consumer._core.settings("group").assignment_interval_ms
                for shard in node.node.groups.runtime.active
            ]
        )

    assert found == [interval_ms]


@pytest.mark.parametrize(("limit", "code"), [(2, ErrorCode.none), (1, ErrorCode.group_max_size_reached)])
def test_a_consumer_group_has_so_many_members_and_no_more(tmp_path: Path, limit: int, code: ErrorCode) -> None:
    with serving(tmp_path, group_consumer_max_size=limit) as node:
        assert heartbeat(node, "first").error_code is ErrorCode.none
        assert heartbeat(node, "second").error_code is code


@pytest.mark.parametrize(
    ("assignors", "code"), [("uniform,range", ErrorCode.none), ("range", ErrorCode.unsupported_assignor)]
)
def test_members_choose_among_the_brokers_assignors(tmp_path: Path, assignors: str, code: ErrorCode) -> None:
    with serving(tmp_path, group_consumer_assignors=assignors) as node:
        assert heartbeat(node, server_assignor="uniform").error_code is code


@pytest.mark.parametrize(
    ("protocols", "code"), [("classic,consumer", ErrorCode.none), ("classic", ErrorCode.unsupported_version)]
)
def test_the_consumer_protocol_can_be_left_out(tmp_path: Path, protocols: str, code: ErrorCode) -> None:
    with serving(tmp_path, group_coordinator_rebalance_protocols=protocols) as node:
        assert heartbeat(node).error_code is code


@pytest.mark.parametrize(
    ("policy", "code"), [("bidirectional", ErrorCode.none), ("disabled", ErrorCode.group_id_not_found)]
)
def test_the_migration_policy_says_whether_a_classic_group_takes_consumers(
    tmp_path: Path, policy: str, code: ErrorCode
) -> None:
    with serving(tmp_path, group_consumer_migration_policy=policy) as node:
        classic = Consumer({"bootstrap.servers": node.address, "group.id": "group", "auto.offset.reset": "earliest"})
        classic.subscribe(["t"])
        for _ in attempts():
            if classic.assignment():
                break
            classic.poll(0.1)
        found = heartbeat(node).error_code
        classic.close()

    assert found is code


@pytest.mark.parametrize(
    ("settings", "ms"), [({}, 600_000), ({"group_consumer_regex_refresh_interval_ms": 15_000}, 15_000)]
)
def test_patterns_are_matched_again_after_the_refresh_interval(
    tmp_path: Path, settings: dict[str, int], ms: int
) -> None:
    with serving(tmp_path, **settings) as node:
        found = node.on_loop(
            lambda: [
                shard.machine.consumer._core.limits.pattern_refresh_ms for shard in node.node.groups.runtime.active
            ]
        )

    assert found == [ms]
