"""Apache Kafka's decoder reads our records of consumer groups; each coordinator goes on with the other's log."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import create, topic_to_create
from tests.broker.apis.committing import await_coordinator, commit, committed
from tests.broker.apis.consuming import Place

from ottla.broker.group_coordinator import group_hash
from ottla.model.errors import ErrorCode
from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import ApacheKafka, free_port, tool
from ottla.testing.node import running_node

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]
SETTINGS: dict[str, Any] = {"offsets_topic_num_partitions": 1, "group_consumer_assignment_interval_ms": 0}
GROUP, STATIC, PATTERN = "sharing", "static", "pattern"


def have_groups(place: Place) -> None:
    """Of all sorts, in all states that records can tell of."""
    for group in (GROUP, STATIC, PATTERN, "left", "deleted"):
        await_coordinator(place.address, group)
    place.join(GROUP, "m1", rack="r1", assignor="range")
    place.join(GROUP, "m2")
    place.beat(GROUP, "m1", 2)  # has to give up two partitions, for which m2 waits
    commit(place.address, GROUP, {"t": {0: 5}}, member="m1", generation=2)
    place.join(STATIC, "m1", instance="i1")
    place.join(STATIC, "m2", instance="i2")
    place.beat(STATIC, "m1", 2, instance="i1", owned={"t": [0, 1]})
    place.beat(STATIC, "m1", -2, instance="i1")
    place.join(PATTERN, "m1", None, pattern="t|none")
    while place.describe(PATTERN)["epochs"][0] == 1:
        pass
    place.beat(PATTERN, "m1", 1)
    place.join("left", "m1")
    commit(place.address, "left", {"t": {1: 7}}, member="m1", generation=2)
    place.leave("left", "m1")
    place.join("deleted", "m1")
    place.leave("deleted", "m1")
    asking.ask(place.address, asking.DELETE_GROUPS, 2, groups_names=["deleted"])


def described(place: Place) -> dict[str, Any]:
    for group in (GROUP, STATIC, PATTERN, "left", "deleted"):
        await_coordinator(place.address, group)
    return {group: place.describe(group) for group in (GROUP, STATIC, PATTERN, "left", "deleted")}


def test_its_decoder_reads_what_we_write(tmp_path: Path) -> None:
    with running_node(tmp_path, **SETTINGS) as node:
        create(node.address, topic_to_create("t", 4))
        have_groups(Place(node.address, "t"))
    (log,) = (tmp_path / f"__consumer_offsets-{group_hash(GROUP) % 1}").glob("*.log")

    done = tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(log), "--offsets-decoder")

    assert done.returncode == 0, done.stderr
    rows = [_row(line) for line in done.stdout.splitlines() if '"type":' in line]
    assert {key["type"] for key, _ in rows} == {"1", "3", "4", "5", "6", "7", "8", "16"}
    latest = {json.dumps(key["data"] | {"type": key["type"]}): value for key, value in rows}
    current = latest[json.dumps({"groupId": GROUP, "memberId": "m1", "type": "8"})]["data"]
    assert (current["memberEpoch"], current["state"]) == (2, 1)
    assert [sorted(row["partitions"]) for row in current["partitionsPendingRevocation"]] == [[2, 3]]
    assert current["assignedPartitions"][0]["assignmentEpochs"] == [2, 2]
    member = latest[json.dumps({"groupId": GROUP, "memberId": "m1", "type": "5"})]["data"]
    assert (member["rackId"], member["serverAssignor"], member["subscribedTopicNames"]) == ("r1", "range", ["t"])
    assert member.get("classicMemberMetadata") is None
    matches = latest[json.dumps({"groupId": PATTERN, "regularExpression": "t|none", "type": "16"})]["data"]
    assert matches["topics"] == ["t"]


def _row(line: str) -> tuple[Any, Any]:
    key, _, payload = line[line.index("key: ") + 5 :].partition(" payload: ")
    return json.loads(key), None if payload == "<DELETE>" else json.loads(payload)


def give_up_features(address: str) -> None:
    """Those that a node of ours does not have yet: it would not join such a cluster."""
    names = ("share.version", "streams.version")
    updates = [{"feature": name, "max_version_level": 0, "upgrade_type": 2} for name in names]
    answer = asking.ask(
        address, asking.UPDATE_FEATURES, 2, feature_updates=updates, timeout=timedelta(seconds=10), validate_only=False
    )  # fmt: skip
    assert answer.error_code is ErrorCode.none, answer


def test_we_go_on_with_its_groups(tmp_path: Path) -> None:
    kafka = ApacheKafka.start(tmp_path / "kafka", free_port(), **SETTINGS)
    try:
        create(kafka.bootstrap, topic_to_create("t", 4))
        there = Place(kafka.bootstrap, "t")
        have_groups(there)
        theirs = described(there)
        give_up_features(kafka.bootstrap)
    finally:
        kafka.stop()

    # The whole folder: the same metadata log, and so the same ids of topics.
    with running_node(kafka.data, **SETTINGS, num_partitions=1) as node:
        here = Place(node.address, "t")
        ours = described(here)
        goes_on = [
            here.beat(GROUP, "m1", 2, owned={"t": [0, 1]}),
            here.beat(GROUP, "m2", 3),
            here.join(STATIC, "m9", instance="i1"),
        ]
        offsets = [sorted(row[:2] for row in committed(node.address, group)["t"]) for group in (GROUP, "left")]

    assert ours == theirs
    assert [(told.error, told.epoch, told.assigned) for told in goes_on] == [
        ("none", 3, None),
        ("none", 3, {"t": [2, 3]}),
        ("none", 3, {"t": [0, 1]}),
    ]
    assert offsets == [[(0, 5)], [(1, 7)]]
