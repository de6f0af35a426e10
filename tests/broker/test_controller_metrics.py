"""What three nodes tell about the controller and the way to it."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.apis.asking import create, topic_to_create
from tests.broker.watching import Scrape
from tests.waiting import PATIENCE_S, until

from ottla.testing.apache_kafka import free_port
from ottla.testing.process_cluster import ProcessCluster, running_processes

CONTROLLER = "kafka_controller_kafkacontroller_{}"


class Watched:
    def __init__(self, cluster: ProcessCluster, ports: dict[int, int]) -> None:
        self.cluster = cluster
        self._ports = ports

    def scrape(self, i: int) -> Scrape:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._ports[i]}/metrics", timeout=PATIENCE_S) as answer:
            return Scrape(answer.read().decode())

    def active(self) -> int:
        (found,) = (i for i in (1, 2, 3) if self.scrape(i).value(CONTROLLER.format("activecontrollercount")))
        return found


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    ports = {i: free_port() for i in (1, 2, 3)}
    each = {i: {"ottla.metrics.listener": f"127.0.0.1:{port}"} for i, port in ports.items()}
    with running_processes(tmp_path, 3, of_each=each) as cluster:
        yield Watched(cluster, ports)


def test_the_controller_and_the_way_to_it_are_told(watched: Watched) -> None:
    cluster, active = watched.cluster, watched.active()
    follower = active % 3 + 1
    create(cluster.address(follower), topic_to_create("t", 3, 3))
    there, here = watched.scrape(active), watched.scrape(follower)

    assert there.value(CONTROLLER.format("eventqueueoperationsstartedcount")) > 0
    assert there.value("kafka_controller_controllereventmanager_eventqueueprocessingtimems_count") > 0
    asked = "kafka_network_requestmetrics_requests_total"
    assert there.get(asked, request="BrokerHeartbeat", role="controller", version=2) > 0
    assert there.get(asked, request="Envelope", role="controller", version=0) == 1
    assert here.get("kafka_server_forwardingmanager_remotetimems_count") == 1
    assert here.value("kafka_server_forwardingmanager_queuelength") == 0
    assert 0 <= here.value("ottla_broker_heartbeat_age_seconds") < PATIENCE_S
    for scrape in (there, here):
        assert scrape.value(CONTROLLER.format("activebrokercount")) == 3
        assert scrape.value(CONTROLLER.format("globaltopiccount")) == 1
        assert scrape.value("kafka_server_raft_metrics_current_leader") == active
        assert scrape.value(CONTROLLER.format("newactivecontrollerscount")) >= 1


def test_a_death_is_told(watched: Watched) -> None:
    active = watched.active()
    victim = active % 3 + 1
    create(watched.cluster.address(active), topic_to_create("t", 3, 3))
    until(lambda: watched.scrape(active).value("ottla_controller_brokers_found_dead_total") == 0)
    watched.cluster.kill(victim)
    until(lambda: watched.scrape(active).value(CONTROLLER.format("fencedbrokercount")) == 1)
    told = watched.scrape(active)
    found, over = (
        told.value("ottla_controller_brokers_found_dead_total"),
        told.value(CONTROLLER.format("timedoutbrokerheartbeatcount")),
    )
    assert found + over == 1
    assert told.value(CONTROLLER.format("activebrokercount")) == 2
    until(lambda: watched.scrape(active).value(CONTROLLER.format("preferredreplicaimbalancecount")) == 1)
    until(lambda: sum(_under_replicated(watched, i) for i in (1, 2, 3) if i != victim) == 3)


def _under_replicated(watched: Watched, i: int) -> float:
    return watched.scrape(i).value("kafka_server_replicamanager_underreplicatedpartitions")
