"""Kafka's own tools on three real nodes, by brokers and, where they can, by controllers alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.clients import a_name, isr_is_full
from tests.waiting import until

from ottla.testing.apache_kafka import available, tool
from ottla.testing.process_cluster import ProcessCluster, running_processes

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not available(), reason="Apache Kafka is not here"),
    pytest.mark.timeout(300),
]

BROKERS, CONTROLLERS = "--bootstrap-server", "--bootstrap-controller"
by_both = pytest.mark.parametrize("way", [BROKERS, CONTROLLERS])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with running_processes(Path(tmp_path_factory.mktemp("nodes")), 3, min_insync_replicas=2) as running:
        yield running


def run(cluster: ProcessCluster, way: str, name: str, *args: str, fails: bool = False) -> str:
    where = cluster.bootstrap if way == BROKERS else cluster.controllers
    # ClusterTool has its command in front, all others behind or by options
    command, rest = (args[:1], args[1:]) if name == "ClusterTool" else ((), args)
    package = "kafka.admin" if name == "ConfigCommand" else "org.apache.kafka.tools"
    package += ".reassign" if name == "ReassignPartitionsCommand" else ""
    done = tool(f"{package}.{name}", *command, way, where, *rest)
    told = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{name} {args}:\n{told}"
    return told


def new_topic(cluster: ProcessCluster, partitions: int = 3) -> str:
    name = a_name("tools")
    shape = ("--partitions", str(partitions), "--replication-factor", "3")
    assert "Created topic" in run(cluster, BROKERS, "TopicCommand", "--create", "--topic", name, *shape)
    until(lambda: isr_is_full(cluster, name))
    return name


@by_both
def test_cluster_tool(cluster: ProcessCluster, way: str) -> None:
    assert re.search(r"Cluster ID: \S{22}", run(cluster, way, "ClusterTool", "cluster-id"))
    told = run(cluster, way, "ClusterTool", "list-endpoints")
    ports = cluster.ports if way == BROKERS else cluster.controller_ports
    kind = "broker" if way == BROKERS else "controller"
    for i, port in ports.items():
        assert re.search(rf"^{i}\s+127\.0\.0\.1\s+{port}\s.*\b{kind}\s*$", told, re.MULTILINE), told
    assert "Broker ID 9 is not currently registered" in run(
        cluster, way, "ClusterTool", "unregister", "--id", "9", fails=True
    )


@by_both
def test_feature_command(cluster: ProcessCluster, way: str) -> None:
    told = run(cluster, way, "FeatureCommand", "describe")
    levels = dict(re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", told))
    assert levels["metadata.version"] == "4.3-IV0" and levels["group.version"] == "1"
    dry = ("--feature", "group.version=0", "--dry-run")
    assert "group.version can be downgraded to 0." in run(cluster, way, "FeatureCommand", "downgrade", *dry)
    upgraded = run(cluster, way, "FeatureCommand", "upgrade", "--feature", "transaction.version=2")
    assert "transaction.version was upgraded to 2." in upgraded
    refused = run(cluster, way, "FeatureCommand", "upgrade", "--feature", "transaction.version=9", fails=True)
    assert "Could not upgrade transaction.version to 9" in refused


@by_both
def test_config_command(cluster: ProcessCluster, way: str) -> None:
    of_one, of_all = (
        ("--entity-type", "brokers", "--entity-name", "2"),
        ("--entity-type", "brokers", "--entity-default"),
    )
    run(cluster, way, "ConfigCommand", "--alter", *of_all, "--add-config", "log.cleaner.threads=2")
    run(cluster, way, "ConfigCommand", "--alter", *of_one, "--add-config", "log.cleaner.backoff.ms=1234")

    def told(*args: str) -> str:
        return run(cluster, way, "ConfigCommand", "--describe", *args)

    until(lambda: "log.cleaner.threads=2" in told(*of_all))
    # by controllers the tool asks the node of that id, which is both here
    until(lambda: "log.cleaner.backoff.ms=1234" in told(*of_one))
    assert "broker.session.timeout.ms=9000" in told(*of_one, "--all")
    assert "ottla.controller=" in told("--entity-type", "broker-loggers", "--entity-name", "2")
    run(cluster, way, "ConfigCommand", "--alter", *of_all, "--delete-config", "log.cleaner.threads")
    run(cluster, way, "ConfigCommand", "--alter", *of_one, "--delete-config", "log.cleaner.backoff.ms")


@by_both
def test_metadata_quorum_command(cluster: ProcessCluster, way: str) -> None:
    told = run(cluster, way, "MetadataQuorumCommand", "describe", "--status")
    assert re.search(r"LeaderId:\s+[123]\b", told) and told.count("CONTROLLER://") == 3, told
    told = run(cluster, way, "MetadataQuorumCommand", "describe", "--replication")
    assert len(re.findall(r"\b(?:Leader|Follower)\s*$", told, re.MULTILINE)) == 3, told


def test_broker_api_versions_command(cluster: ProcessCluster) -> None:
    told = run(cluster, BROKERS, "BrokerApiVersionsCommand")
    assert told.count("Produce(0): 0 to 13") == 3 and told.count("ConsumerGroupHeartbeat(68)") == 3


def test_log_dirs_command(cluster: ProcessCluster) -> None:
    topic = new_topic(cluster)
    told = run(cluster, BROKERS, "LogDirsCommand", "--describe", "--topic-list", topic)
    assert told.count(f'"partition":"{topic}-0"') == 3 and '"error":null' in told
    told = run(cluster, BROKERS, "LogDirsCommand", "--describe", "--broker-list", "2", "--topic-list", topic)
    assert told.count(f'"partition":"{topic}-0"') == 1


def test_topics_and_elections_while_a_node_is_away(cluster: ProcessCluster) -> None:
    topic = new_topic(cluster)

    def described(*args: str) -> list[str]:
        told = run(cluster, BROKERS, "TopicCommand", "--describe", "--topic", topic, *args)
        return re.findall(rf"Topic: {topic}\tPartition: (\d+)", told)

    assert described() == ["0", "1", "2"] and described("--under-replicated-partitions") == []
    cluster.kill(3)
    until(lambda: described("--under-replicated-partitions") == ["0", "1", "2"])
    assert described("--at-min-isr-partitions") == ["0", "1", "2"]
    assert described("--under-min-isr-partitions") == described("--unavailable-partitions") == []
    cluster.start(3)
    until(lambda: isr_is_full(cluster, topic))
    told = run(cluster, BROKERS, "LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    assert re.search(rf"Successfully completed leader election \(PREFERRED\) for partitions .*{topic}-\d", told), told
    given = ("--election-type", "unclean", "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {topic}-0" in run(
        cluster, BROKERS, "LeaderElectionCommand", *given
    )
    run(cluster, BROKERS, "TopicCommand", "--alter", "--topic", topic, "--partitions", "4")
    until(lambda: described() == ["0", "1", "2", "3"])


@by_both
def test_reassign_partitions_command(cluster: ProcessCluster, way: str, tmp_path: Path) -> None:
    topic, plan = new_topic(cluster, 1), tmp_path / "plan.json"
    moved = {"topic": topic, "partition": 0, "replicas": [3, 2], "log_dirs": ["any", "any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    file = ("--reassignment-json-file", str(plan))
    if way == CONTROLLERS:
        assert "No partition reassignments found." in run(cluster, way, "ReassignPartitionsCommand", "--list")
        return
    told = run(cluster, way, "ReassignPartitionsCommand", "--execute", *file)
    assert f"Successfully started partition reassignment for {topic}-0" in told, told
    until(lambda: "is completed" in run(cluster, way, "ReassignPartitionsCommand", "--verify", *file))


def test_a_node_that_is_gone_for_good_is_forgotten(cluster: ProcessCluster) -> None:
    cluster.stop(3)
    assert "Broker 3 is no longer registered." in run(cluster, CONTROLLERS, "ClusterTool", "unregister", "--id", "3")
    told = run(cluster, BROKERS, "ClusterTool", "list-endpoints", "--include-fenced-brokers")
    assert [row for row in told.splitlines() if row.startswith("3 ")] == []
    cluster.start(3)
