"""What commands ask about groups, of brokers that are older or not ready."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import pytest

from ottla.cli.admin import groups, offsets
from ottla.cli.admin.embedded import assigned_partitions, subscribed_topics
from ottla.cli.admin.session import Session
from ottla.cli.admin.topics import topics
from ottla.cli.cluster_options import Address, Cluster
from ottla.coordinator.group.classic.embedded_protocol import write_assignment
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import TopicPartition
from ottla.wire.build import build, response_type

ADDRESS = Address("127.0.0.1", 9092)


class OldCluster:
    """Answers from a table by API; each answer is given once, the last one for ever."""

    def __init__(self, versions: Mapping[int, int], answers: Mapping[int, list[dict[str, Any]]]) -> None:
        self.cluster = Cluster((ADDRESS,), 2.0)
        self.brokers = {1: ADDRESS}
        self.coordinators = {"g": 1}
        self.asked: list[tuple[int, int]] = []
        self._versions = versions
        self._answers = answers

    def forget(self) -> None:
        """There is but one broker; who leads is asked anew."""
        self.brokers = {}

    async def newest(self, key: int, wanted: int, *, broker: int | None = None) -> int | None:
        return None if key not in self._versions else min(self._versions[key], wanted)

    async def call(self, request: Any, *, broker: int | None = None, longer_s: float = 0.0) -> Any:
        key, version = int(request.__api_key__), int(request.__version__)
        self.asked.append((key, version))
        answers = self._answers[key]
        values = answers.pop(0) if len(answers) > 1 else answers[0]
        return build(response_type(key, version), {"throttle_time": timedelta(0), **values})


def ask(cluster: OldCluster, work: Any) -> Any:
    return asyncio.run(work(cast(Session, cluster)))


LISTED = {
    "error_code": ErrorCode.none,
    "groups": [{"group_id": "g", "protocol_type": "consumer", "group_state": "Stable", "group_type": "classic"}],
}
MEMBER = {
    "member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h",
    "member_metadata": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff", "member_assignment": write_assignment(0, {"t": [1, 0]}),
}  # fmt: skip
DESCRIBED = {
    "groups": [
        {
            "error_code": ErrorCode.none, "group_id": "g", "group_state": "Stable", "protocol_type": "consumer",
            "protocol_data": "range", "members": [MEMBER],
        }
    ]
}  # fmt: skip
NOT_OF_CONSUMERS = {
    "groups": [
        {
            "error_code": ErrorCode.group_id_not_found, "group_id": "g", "group_state": "", "group_epoch": 0,
            "assignment_epoch": 0, "assignor_name": "", "members": [],
        }
    ]
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "kind", "state"), [(5, "Classic", "Stable"), (4, None, "Stable"), (3, None, ""), (0, None, "")]
)
def test_groups_are_listed_as_well_as_the_broker_can(version: int, kind: str | None, state: str) -> None:
    cluster = OldCluster({16: version}, {16: [LISTED]})
    (listed,) = ask(cluster, groups.list_groups)
    assert (listed.id, listed.type, listed.state, cluster.asked) == ("g", kind, state, [(16, version)])


@pytest.mark.parametrize(
    ("version", "states", "types", "told"),
    [
        (4, (), ("Consumer",), "does not know types of groups, as Kafka before 3.8: leave --type out"),
        (3, ("Stable",), (), "cannot list by state, as Kafka before 2.6: leave --state out"),
    ],
)
def test_what_an_older_broker_cannot_filter_is_told(
    version: int, states: tuple[str, ...], types: tuple[str, ...], told: str
) -> None:
    with pytest.raises(OttlaError, match=told):
        ask(OldCluster({16: version}, {}), lambda there: groups.list_groups(there, states, types))


@pytest.mark.parametrize("knows_consumers", [False, True])
def test_a_classic_group_is_described_whatever_else_the_broker_knows(knows_consumers: bool) -> None:
    cluster = OldCluster({69: 0} if knows_consumers else {}, {15: [DESCRIBED], 69: [NOT_OF_CONSUMERS]})
    found = ask(cluster, lambda there: groups.describe(there, ["g"]))["g"]
    assert (found.type, found.state, found.assignor, found.epoch) == ("Classic", "Stable", "range", None)
    (member,) = found.members
    assert member.assigned == (TopicPartition("t", 0), TopicPartition("t", 1)) and member.topics == ("t",)
    assert cluster.asked == [(69, 0), (15, 5)][0 if knows_consumers else 1 :]


def test_a_coordinator_that_is_being_loaded_is_asked_again() -> None:
    loading = {"groups": [{**DESCRIBED["groups"][0], "error_code": ErrorCode.coordinator_load_in_progress}]}
    cluster = OldCluster({}, {15: [loading, loading, DESCRIBED]})
    assert ask(cluster, lambda there: groups.describe(there, ["g"]))["g"].state == "Stable"
    assert len(cluster.asked) == 3


def test_one_that_stays_so_is_told() -> None:
    loading = {"groups": [{**DESCRIBED["groups"][0], "error_code": ErrorCode.coordinator_load_in_progress}]}
    cluster = OldCluster({}, {15: [loading]})
    cluster.cluster = Cluster((ADDRESS,), 0.2)
    with pytest.raises(OttlaError, match="group g: COORDINATOR_LOAD_IN_PROGRESS"):
        ask(cluster, lambda there: groups.describe(there, ["g"]))


def _metadata(leader: int) -> dict[str, Any]:
    part = {
        "error_code": ErrorCode.none if leader >= 0 else ErrorCode.leader_not_available, "partition_index": 0,
        "leader_id": leader, "replica_nodes": (1,), "isr_nodes": (1,), "offline_replicas": (),
    }  # fmt: skip
    topic = {"error_code": ErrorCode.none, "name": "t", "topic_id": None, "partitions": [part]}
    broker = {"node_id": 1, "host": ADDRESS.host, "port": ADDRESS.port, "rack": None}
    return {"brokers": [broker], "cluster_id": "c", "controller_id": 1, "topics": [topic]}


def test_a_partition_between_two_leaders_is_asked_again() -> None:
    part = {"partition_index": 0, "error_code": ErrorCode.none, "timestamp": None, "offset": 7}
    told = {"topics": [{"name": "t", "partitions": [part]}]}
    cluster = OldCluster({}, {3: [_metadata(-1), _metadata(-1), _metadata(1)], 2: [told]})

    async def end_of(there: Session) -> dict[int, int]:
        (topic,) = await topics(there, ["t"])
        return await offsets.offsets(there, topic, offsets.LATEST)

    assert ask(cluster, end_of) == {0: 7}
    assert [key for key, _ in cluster.asked] == [3, 3, 3, 2]


@pytest.mark.parametrize("data", [b"x", b"\0\0\0\0\0\5", b"\xff\xff"])
def test_what_does_not_follow_the_format_is_not_known(data: bytes) -> None:
    assert assigned_partitions(data) is None and subscribed_topics(data) == ()
