"""Real processes die: others lead in a moment, long before a session runs out. Those that only pause are left alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.broker.apis.asking import create, metadata, topic_to_create

from ottla.model.errors import ErrorCode
from ottla.testing.process_cluster import ProcessCluster, running_processes
from ottla.wire.client import ConnectionFailed

SESSION_S = 60.0  # so that nothing here is found by a session that ran out


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    folder: Path = tmp_path_factory.mktemp("nodes")
    with running_processes(folder, 3, broker_session_timeout_ms=int(SESSION_S * 1000)) as running:
        answer = create(running.address(1), topic_to_create("t", 6, 3))
        assert answer.topics[0].error_code is ErrorCode.none
        time.sleep(1)  # every controller has dialled every broker by then
        yield running


def leaders(address: str) -> list[int]:
    (topic,) = metadata(address, "t").topics
    return [partition.leader_id for partition in topic.partitions]


def in_sync(address: str) -> list[set[int]]:
    (topic,) = metadata(address, "t").topics
    return [set(partition.isr_nodes) for partition in topic.partitions]


def until(holds: Callable[[], bool], within: float = 20.0) -> float:
    """How long it took. A connection that is lost is tried again, as clients do."""
    start = time.monotonic()
    while time.monotonic() - start < within:
        try:
            if holds():
                return time.monotonic() - start
        except ConnectionFailed:
            pass
        time.sleep(0.01)
    raise AssertionError(f"it was not so within {within:g} s")


@pytest.mark.parametrize("victim", [1, 2, 3])  # one of them is the active controller
def test_a_broker_that_is_killed_leads_nothing_a_moment_later_and_is_back_at_once(
    cluster: ProcessCluster, victim: int
) -> None:
    other = cluster.address(victim % 3 + 1)

    cluster.kill(victim)
    moved = until(lambda: not {victim, -1} & set(leaders(other)))
    cluster.start(victim)
    back = until(lambda: all(victim in members for members in in_sync(other)))

    assert moved < 5, "about 0.3 s; the rest is a slow machine"
    assert back < SESSION_S / 3, "its next incarnation did not wait for the session of the last"


def test_a_broker_that_only_pauses_is_not_fenced(cluster: ProcessCluster) -> None:
    said = {i: cluster.log(i) for i in (1, 3)}
    cluster.pause(2)
    try:
        time.sleep(2)
    finally:
        cluster.go_on(2)

    assert not [i for i in said if "is gone" in cluster.log(i)[len(said[i]) :]]
