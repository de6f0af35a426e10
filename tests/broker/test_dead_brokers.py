"""Real processes die: others lead in a moment, long before a session runs out. Those that only pause are left alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.apis.asking import create, metadata, topic_to_create
from tests.waiting import PATIENCE_S, until

from ottla.model.errors import ErrorCode
from ottla.testing.process_cluster import ProcessCluster, running_processes
from ottla.wire.client import ConnectionFailed

SESSION_S = 10 * PATIENCE_S  # so that nothing here is found by a session that ran out


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    folder: Path = tmp_path_factory.mktemp("nodes")
    with running_processes(folder, 3, broker_session_timeout_ms=int(SESSION_S * 1000)) as running:
        answer = create(running.address(1), topic_to_create("t", 6, 3))
        assert answer.topics[0].error_code is ErrorCode.none
        time.sleep(3)  # every controller has dialled every broker by then
        yield running


def leaders(address: str) -> list[int]:
    """-1 also where nobody could say: who asks, asks again, as clients do."""
    try:
        (topic,) = metadata(address, "t").topics
    except ConnectionFailed:
        return [-1]
    return [partition.leader_id for partition in topic.partitions]


def in_sync(address: str) -> list[set[int]]:
    try:
        (topic,) = metadata(address, "t").topics
    except ConnectionFailed:
        return [set()]
    return [set(partition.isr_nodes) for partition in topic.partitions]


@pytest.mark.parametrize("victim", [1, 2, 3])  # one of them is the active controller
def test_a_broker_that_is_killed_leads_nothing_a_moment_later_and_is_back_at_once(
    cluster: ProcessCluster, victim: int
) -> None:
    other = cluster.address(victim % 3 + 1)

    cluster.kill(victim)
    until(lambda: not {victim, -1} & set(leaders(other)), "others lead")  # long before its session would have run out
    cluster.start(victim)
    until(lambda: all(victim in members for members in in_sync(other)), "it is back")  # it does not wait for it either


def test_a_broker_that_only_pauses_is_not_fenced(cluster: ProcessCluster) -> None:
    said = {i: cluster.log(i) for i in (1, 3)}
    cluster.pause(2)
    try:
        time.sleep(2)
    finally:
        cluster.go_on(2)

    assert not [i for i in said if "is gone" in cluster.log(i)[len(said[i]) :]]


def test_all_nodes_killed_at_once_are_back_at_once(cluster: ProcessCluster) -> None:
    """No controller is left that knew them; the sessions of before do not count."""
    cluster.kill(*cluster.ids)
    cluster.start()

    until(lambda: in_sync(cluster.address(1)) == [{1, 2, 3}] * 6, "all are in sync")


def test_a_broker_and_its_only_controller_killed_together_are_back_at_once(tmp_path: Path) -> None:
    with running_processes(
        tmp_path, 2, roles={1: "controller"}, broker_session_timeout_ms=int(SESSION_S * 1000)
    ) as two:
        assert create(two.address(2), topic_to_create("t", 3, 1)).topics[0].error_code is ErrorCode.none
        two.kill(1, 2)
        two.start()
        until(lambda: leaders(two.address(2)) == [2, 2, 2], "it leads again")
