"""Configs of consumer groups, the broker's and a group's own: with another value, something else happens."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis.altering import GROUP, SET, change, changed, set_config
from tests.broker.apis.asking import create, topic_to_create
from tests.broker.apis.committing import await_coordinator
from tests.broker.apis.consuming import Place

from ottla.model.errors import ErrorCode
from ottla.testing.node import running_node

FEW = {"offsets_topic_num_partitions": 1}
SHORT = {"group_consumer_min_session_timeout_ms": 300, "group_consumer_min_heartbeat_interval_ms": 50}


def place_on(address: str) -> Place:
    create(address, topic_to_create("t", 4))
    await_coordinator(address)
    return Place(address, "t")


def gone_after(place: Place) -> float:
    """How long a member that falls silent is a member."""
    place.join("group", "m1")
    begun = time.monotonic()
    while place.describe("group")["state"] != "Empty":
        assert time.monotonic() < begun + 20
        time.sleep(0.02)
    return time.monotonic() - begun


@pytest.mark.parametrize("session_ms", [400, 1500])
def test_a_session_is_as_long_as_the_broker_says(tmp_path: Path, session_ms: int) -> None:
    settings = SHORT | {
        "group_consumer_session_timeout_ms": session_ms,
        "group_consumer_heartbeat_interval_ms": 100,
    }
    with running_node(tmp_path, **FEW, **settings) as node:
        place = place_on(node.address)
        taken = gone_after(place)
        interval_ms = place.join("group", "m2").interval_ms

    assert session_ms / 1000 - 0.1 < taken
    assert interval_ms == 100


def test_a_group_may_have_a_session_of_its_own(tmp_path: Path) -> None:
    with running_node(tmp_path, **FEW, **SHORT) as node:
        place = place_on(node.address)
        set_config(
            node.address, GROUP, "group", consumer_session_timeout_ms="500", consumer_heartbeat_interval_ms="70"
        )  # fmt: skip
        taken = gone_after(place)

    assert 0.4 < taken < 15


@pytest.mark.parametrize(
    ("name", "value", "bounds", "is_taken"),
    [
        ("consumer.session.timeout.ms", "44999", {}, False),
        ("consumer.session.timeout.ms", "44999", {"group_consumer_min_session_timeout_ms": 44999}, True),
        ("consumer.session.timeout.ms", "60001", {}, False),
        ("consumer.session.timeout.ms", "60001", {"group_consumer_max_session_timeout_ms": 60001}, True),
        ("consumer.heartbeat.interval.ms", "4999", {}, False),
        ("consumer.heartbeat.interval.ms", "4999", {"group_consumer_min_heartbeat_interval_ms": 4999}, True),
        ("consumer.heartbeat.interval.ms", "15001", {}, False),
        ("consumer.heartbeat.interval.ms", "15001", {"group_consumer_max_heartbeat_interval_ms": 15001}, True),
        ("consumer.assignment.interval.ms", "5", {}, True),
        ("consumer.assignment.interval.ms", "5", {"group_consumer_min_assignment_interval_ms": 6}, False),
        ("consumer.assignment.interval.ms", "15001", {}, False),
        ("consumer.assignment.interval.ms", "15001", {"group_consumer_max_assignment_interval_ms": 15001}, True),
    ],
)
def test_a_group_may_set_what_the_broker_allows(
    tmp_path: Path, name: str, value: str, bounds: dict[str, Any], is_taken: bool
) -> None:
    with running_node(tmp_path, **FEW, **bounds) as node:
        ((code, _),) = change(node.address, changed(GROUP, "group", (name, SET, value)))

    assert code is (ErrorCode.none if is_taken else ErrorCode.invalid_config)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("interval_ms", "epoch"), [(0, 3), (15_000, 2)])
def test_assignments_keep_their_distance(tmp_path: Path, own: bool, interval_ms: int, epoch: int) -> None:
    settings = {} if own else {"group_consumer_assignment_interval_ms": interval_ms}
    with running_node(tmp_path, **FEW, **settings) as node:
        place = place_on(node.address)
        if own:
            set_config(node.address, GROUP, "group", consumer_assignment_interval_ms=str(interval_ms))
        place.join("group", "m1")

        assert place.join("group", "m2").epoch == epoch


def test_size_and_assignors_are_the_brokers(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "group_consumer_max_size": 1,
        "group_consumer_assignors": "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
    }
    with running_node(tmp_path, **FEW, **settings) as node:
        place = place_on(node.address)
        assert place.join("group", "m1", assignor="uniform").error == "unsupported_assignor"
        assert place.join("group", "m1").error == "none"
        assert place.join("group", "m2").error == "group_max_size_reached"
        assert place.describe("group")["assignor"] == "range"
