"""Three real nodes form a quorum over real sockets; every node follows its metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.metadata import given

from ottla.broker.lifecycle import StartGivenUp
from ottla.metadata.controller.requests import RegisterBroker
from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.testing.cluster import Cluster, running_cluster


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, 3) as cluster:
        yield cluster


def a_registration(cluster: Cluster, broker_id: int) -> RegisterBroker:
    return replace(given.registration(broker_id), cluster_id=cluster.cluster_id)


def register(cluster: Cluster, broker_id: int) -> int:
    """Something to be written, and to be found in the image: a broker that is none of the nodes."""
    active = cluster.active_controller()
    epoch: int = cluster.run(active.local_controller.submit(a_registration(cluster, broker_id)))
    return epoch


def everybody_knows(cluster: Cluster, *brokers: int) -> None:
    cluster.until(lambda: all(set(brokers) <= set(node.image.brokers) for node in cluster.nodes.values()))


def test_they_elect_one_and_all_know_what_it_wrote(three: Cluster) -> None:
    register(three, 11)

    everybody_knows(three, 11)
    active = three.active_controller()
    assert three.on_loop(lambda: sum(node.is_active_controller for node in three.nodes.values())) == 1
    assert three.on_loop(lambda: {node.raft.leader_id for node in three.nodes.values()}) == {active.config.node_id}
    images = three.on_loop(lambda: [node.image for node in three.nodes.values()])
    assert all(image.features == images[0].features != {} for image in images)


def test_who_is_not_active_says_so(three: Cluster) -> None:
    active = three.active_controller()
    other = next(node for node in three.nodes.values() if node is not active)

    with pytest.raises(KafkaError) as error:
        three.run(other.local_controller.submit(a_registration(three, 11)))

    assert error.value.code is ErrorCode.not_controller


def test_a_leader_that_stops_is_replaced_and_comes_back_as_a_follower(three: Cluster) -> None:
    register(three, 11)
    old = three.active_controller().config.node_id

    three.stop(old)
    register(three, 12)
    everybody_knows(three, 11, 12)
    three.start(old)

    everybody_knows(three, 11, 12)
    assert not three.nodes[old].is_active_controller
    register(three, 13)
    everybody_knows(three, 11, 12, 13)


def test_a_majority_that_starts_again_has_all_that_was_acknowledged(three: Cluster) -> None:
    register(three, 11)
    for i in three.ids:
        three.stop(i)

    three.start(1, 2)

    everybody_knows(three, 11)
    assert three.active_controller().raft.epoch > 1


def test_what_was_not_committed_fails_and_leaves_nothing_behind(three: Cluster) -> None:
    """The others stop: the active controller can append, and nobody confirms it."""
    register(three, 11)
    active = three.active_controller()
    for i in three.ids:
        if three.nodes[i] is not active:
            three.stop(i)
    three.until(lambda: active.raft.is_leader)

    with pytest.raises((KafkaError, asyncio.TimeoutError)) as error:
        three.run(asyncio.wait_for(active.local_controller.submit(a_registration(three, 12)), 20))

    assert isinstance(error.value, KafkaError)
    assert error.value.code is ErrorCode.not_controller
    assert not active.is_active_controller
    others = [i for i in three.ids if i not in three.nodes]
    three.start(*others)
    register(three, 13)
    everybody_knows(three, 11, 13)
    images = three.on_loop(lambda: [sorted(node.image.brokers) for node in three.nodes.values()])
    assert images[0] == images[1] == images[2]


@pytest.mark.parametrize("roles", ["broker", "broker,controller"])
def test_a_broker_that_finds_no_quorum_gives_up_and_says_what_to_look_at(tmp_path: Path, roles: str) -> None:
    with running_cluster(tmp_path, 3, {3: roles}, start=False, initial_broker_registration_timeout_ms=300) as cluster:
        with pytest.raises(OttlaError, match=r"no leader .* within 300 ms .*controller.quorum.voters"):
            cluster.start(3)


def test_a_start_that_waits_for_a_quorum_can_be_given_up(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, start=False) as cluster:
        cluster.loop.call_soon_threadsafe(cluster.loop.call_later, 0.2, lambda: cluster.nodes[1].give_up_start())
        with pytest.raises(StartGivenUp):
            cluster.start(1)


def test_a_broker_without_the_role_observes(tmp_path: Path) -> None:
    """It has no vote, knows all the same, and finds the active controller wherever it is."""
    with running_cluster(tmp_path, 4, {4: "broker"}) as cluster:
        everybody_knows(cluster, 4)
        observer = cluster.nodes[4]
        assert observer.raft.quorum.voters.ids == (1, 2, 3)
        assert not observer.raft.quorum.replica.is_voter

        cluster.stop(cluster.active_controller().config.node_id)
        register(cluster, 11)

        everybody_knows(cluster, 11)
        cluster.until(lambda: observer.image.brokers[4].active or None)
        leadership = cluster.active_controller().raft.leadership
        assert leadership is not None
        assert [key.id for key in leadership.observers] == [4]


def test_nodes_of_both_roles_form_a_cluster(tmp_path: Path) -> None:
    roles = dict.fromkeys((1, 2, 3), "broker,controller")
    with running_cluster(tmp_path, 3, roles) as cluster:
        cluster.until(lambda: all(node.image.brokers.keys() >= {1, 2, 3} for node in cluster.nodes.values()))
        cluster.until(lambda: all(broker.active for broker in cluster.nodes[1].image.brokers.values()))
