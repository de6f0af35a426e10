"""A quorum whose voters are in its log (KIP-853): controllers join and leave while it works."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.broker.asking_controllers import ask_controller
from tests.broker.test_quorum_of_nodes import everybody_knows, register
from tests.waiting import attempts

from ottla.broker.node import Node
from ottla.metadata.controller.requests import FeatureUpdate, UpdateFeatures, UpgradeType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.testing.cluster import Cluster, running_cluster

ADD, REMOVE, API_VERSIONS, DESCRIBE_QUORUM = 80, 81, 18, 55


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Cluster]:
    """One voter, and two controllers that observe."""
    with running_cluster(tmp_path, 3, initial_voters=(1,), start=False) as cluster:
        cluster.start(1)
        cluster.start(2, 3)
        yield cluster


def key(node: Node) -> tuple[int, UUID]:
    return node.raft.quorum.replica.me


def add(cluster: Cluster, i: int, to: int | None = None, **changed: Any) -> Any:
    node_id, directory_id = key(cluster.nodes[i])
    leader = cluster.active_controller().config.node_id if to is None else to
    values = {
        "cluster_id": cluster.cluster_id,
        "timeout": timedelta(seconds=5),
        "voter_id": node_id,
        "voter_directory_id": directory_id,
        "listeners": [{"name": "CONTROLLER", "host": "127.0.0.1", "port": cluster.controller_ports[i]}],
        "ack_when_committed": True,
    }
    return ask_controller(cluster, leader, ADD, 1, **(values | changed))


def become_voters(cluster: Cluster, *ids: int) -> None:
    """One that has just come may lag behind for a moment, and is to be asked again."""
    for i in ids:
        for _ in attempts():
            answer = add(cluster, i)
            if answer.error_code is not ErrorCode.request_timed_out:
                break
        assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)


def remove(cluster: Cluster, i: int, directory_id: UUID | None = None) -> Any:
    node_id, own = key(cluster.nodes[i])
    leader = cluster.active_controller().config.node_id
    return ask_controller(
        cluster, leader, REMOVE, 0,
        cluster_id=cluster.cluster_id, voter_id=node_id, voter_directory_id=directory_id or own,
    )  # fmt: skip


def voters(cluster: Cluster) -> list[tuple[int, ...]]:
    return cluster.on_loop(lambda: [node.raft.quorum.voters.ids for node in cluster.nodes.values()])


def all_have(cluster: Cluster, *ids: int) -> None:
    cluster.until(lambda: all(node.raft.quorum.voters.ids == ids for node in cluster.nodes.values()))


def test_who_is_no_voter_observes_and_knows_all(grown: Cluster) -> None:
    register(grown, 11)
    everybody_knows(grown, 11)
    assert voters(grown) == [(1,), (1,), (1,)]
    assert grown.active_controller() is grown.nodes[1]


def test_controllers_become_voters_and_then_the_first_may_go(grown: Cluster) -> None:
    become_voters(grown, 2, 3)
    all_have(grown, 1, 2, 3)

    grown.stop(1)
    register(grown, 11)
    everybody_knows(grown, 11)
    assert grown.active_controller().config.node_id in (2, 3)


def test_a_leader_that_is_removed_hands_over(grown: Cluster) -> None:
    become_voters(grown, 2, 3)

    answer = remove(grown, 1)

    assert answer.error_code is ErrorCode.none
    all_have(grown, 2, 3)
    grown.until(lambda: not grown.nodes[1].is_active_controller)
    assert grown.active_controller().config.node_id in (2, 3)
    register(grown, 11)
    everybody_knows(grown, 11)


def test_voters_are_found_again_after_a_restart_of_all(grown: Cluster) -> None:
    become_voters(grown, 2, 3)
    for i in grown.ids:
        grown.stop(i)

    grown.start(2, 3)

    all_have(grown, 1, 2, 3)
    assert grown.active_controller().config.node_id in (2, 3)


def test_a_voter_that_moved_to_another_port_says_so(grown: Cluster) -> None:
    become_voters(grown, 2, 3)
    follower = next(i for i in (2, 3) if grown.nodes[i] is not grown.active_controller())
    grown.stop(follower)
    before = grown.controller_ports[follower]
    grown.controller_ports[follower] = grown.ports[follower]  # free as well

    grown.start(follower)

    assert grown.controller_ports[follower] != before
    grown.until(
        lambda: all(
            node.raft.quorum.voters.endpoints(follower)[0].port == grown.controller_ports[follower]
            for node in grown.nodes.values()
        )
    )


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"cluster_id": "another"}, ErrorCode.inconsistent_cluster_id, "match the cluster id"),
        ({"voter_id": 1}, ErrorCode.duplicate_voter, "already part of the set of voters"),
        ({"listeners": [{"name": "OTHER", "host": "h", "port": 1}]}, ErrorCode.invalid_request, "default listener"),
        ({"voter_directory_id": None}, ErrorCode.invalid_request, "valid voter"),
    ],
)
def test_who_cannot_be_added(grown: Cluster, changed: dict[str, Any], error: ErrorCode, message: str) -> None:
    answer = add(grown, 2, **changed)

    assert answer.error_code is error
    assert message in answer.error_message


def test_who_does_not_lead_cannot_add(grown: Cluster) -> None:
    answer = add(grown, 2, to=3)

    assert answer.error_code is ErrorCode.not_leader_or_follower


def test_another_directory_of_a_voter_is_not_the_voter(grown: Cluster) -> None:
    become_voters(grown, 2)

    answer = remove(grown, 2, UUID(int=7))

    assert answer.error_code is ErrorCode.voter_not_found
    assert voters(grown)[0] == (1, 2)


def test_the_quorum_is_described_with_voters_observers_and_where_they_are(grown: Cluster) -> None:
    become_voters(grown, 2)
    grown.until(lambda: len(grown.nodes[1].raft.quorum.voters) == 2)

    topic = {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}
    answer = ask_controller(grown, grown.active_controller().config.node_id, DESCRIBE_QUORUM, 2, topics=[topic])

    (row,) = answer.topics[0].partitions
    assert row.leader_id == 1
    known = {(each.replica_id, each.replica_directory_id) for each in row.current_voters}
    assert known == {key(grown.nodes[1]), key(grown.nodes[2])}
    assert [each.replica_id for each in row.observers] == [3]
    ports = {node.node_id: node.listeners[0].port for node in answer.nodes}
    assert ports == {i: grown.controller_ports[i] for i in (1, 2)}


def test_with_auto_join_a_controller_becomes_a_voter_by_itself(tmp_path: Path) -> None:
    with running_cluster(
        tmp_path,
        3,
        initial_voters=(1,),
        start=False,
        controller_quorum_auto_join_enable="true",
        controller_quorum_fetch_timeout_ms=500,
    ) as cluster:
        cluster.start(1)
        cluster.start(2, 3)

        all_have(cluster, 1, 2, 3)


def test_static_voters_move_into_the_log_with_kraft_version_1(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, controller_quorum_fetch_timeout_ms=500) as cluster:
        upgrade = UpdateFeatures((FeatureUpdate("kraft.version", 1, UpgradeType.UPGRADE),))
        refused: list[str] = []
        for _ in attempts(lambda: refused[-1:]):
            if cluster.on_loop(lambda: cluster.nodes[1].raft.kraft_version):
                break
            try:
                cluster.run(cluster.active_controller().local_controller.submit(upgrade))
            except KafkaError as error:  # until every voter has told where it listens and what it supports
                refused.append(str(error))

        cluster.until(lambda: all(node.raft.kraft_version == 1 for node in cluster.nodes.values()))
        keys = cluster.on_loop(lambda: {tuple(node.raft.quorum.voters.keys) for node in cluster.nodes.values()})
        assert keys == {tuple(key(cluster.nodes[i]) for i in cluster.ids)}
        answer = ask_controller(cluster, 1, API_VERSIONS, 4, client_software_name="test", client_software_version="1")
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        assert finalized["kraft.version"] == 1
        register(cluster, 11)
        cluster.stop(cluster.active_controller().config.node_id)
        register(cluster, 12)
        everybody_knows(cluster, 11, 12)


def test_what_the_quorum_is_formatted_with_says_kraft_version_1(grown: Cluster) -> None:
    answer = ask_controller(grown, 1, API_VERSIONS, 4, client_software_name="test", client_software_version="1")

    assert ("kraft.version", 1) in {(each.name, each.max_version_level) for each in answer.finalized_features}
    assert ("kraft.version", 0, 1) in {
        (each.name, each.min_version, each.max_version) for each in answer.supported_features
    }
