"""Apache Kafka's own administration tools against a node: kafka-configs.sh, kafka-topics.sh and their neighbours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.interop.conftest import NewTopic

from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import tool
from ottla.testing.process import NodeProcess

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]

TOOLS = "org.apache.kafka.tools."
CONFIGS = "kafka.admin.ConfigCommand"


def run(node: NodeProcess, class_name: str, *args: str, fails: bool = False) -> str:
    done = tool(class_name, "--bootstrap-server", node.address, *args)
    told = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{class_name} {args}:\n{told}"
    return told


def alter(node: NodeProcess, kind: str, name: str | None, *args: str, fails: bool = False) -> str:
    whom = ("--entity-default",) if name is None else ("--entity-name", name)
    return run(node, CONFIGS, "--alter", "--entity-type", kind, *whom, *args, fails=fails)


def describe(node: NodeProcess, kind: str, name: str | None, *args: str) -> str:
    whom = ("--entity-default",) if name is None else ("--entity-name", name)
    return run(node, CONFIGS, "--describe", "--entity-type", kind, *whom, *args)


def test_configs_of_a_topic(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic()

    told = alter(node, "topics", topic, "--add-config", "retention.ms=86400000,cleanup.policy=[compact,delete]")
    assert f"Completed updating config for topic {topic}." in told
    shown = describe(node, "topics", topic)
    assert "retention.ms=86400000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=86400000" in shown
    assert "cleanup.policy=compact,delete" in shown

    alter(node, "topics", topic, "--delete-config", "retention.ms")
    assert "retention.ms" not in describe(node, "topics", topic)
    assert "retention.ms=604800000" in describe(node, "topics", topic, "--all")
    refused = alter(node, "topics", topic, "--add-config", "retention.ms=soon", fails=True)
    assert "Invalid value soon for configuration retention.ms" in refused


def test_configs_of_brokers(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic()

    assert "Completed updating default config for brokers" in alter(
        node, "brokers", None, "--add-config", "log.retention.ms=7777777"
    )
    alter(node, "brokers", "1", "--add-config", "log.retention.ms=8888888")
    try:
        synonyms = (
            "DYNAMIC_BROKER_CONFIG:log.retention.ms=8888888, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7777777"
        )
        assert f"log.retention.ms=8888888 sensitive=false synonyms={{{synonyms}" in describe(node, "brokers", "1")
        assert "log.retention.ms=7777777" in describe(node, "brokers", None)
        assert "retention.ms=8888888" in describe(node, "topics", topic, "--all")
    finally:
        alter(node, "brokers", "1", "--delete-config", "log.retention.ms")
        alter(node, "brokers", None, "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in describe(node, "brokers", "1")
    refused = alter(node, "brokers", "1", "--add-config", "num.partitions=5", fails=True)
    assert "Cannot update these configs dynamically" in refused


def test_levels_of_loggers(node: NodeProcess) -> None:
    alter(node, "broker-loggers", "1", "--add-config", "ottla.raft=DEBUG")
    try:
        assert "ottla.raft=DEBUG" in describe(node, "broker-loggers", "1")
    finally:
        alter(node, "broker-loggers", "1", "--delete-config", "ottla.raft")
    assert "ottla.raft=INFO" in describe(node, "broker-loggers", "1")


def test_configs_of_groups_and_of_metrics_subscriptions(node: NodeProcess) -> None:
    alter(node, "groups", "readers", "--add-config", "consumer.heartbeat.interval.ms=6000")
    # To show it the tool lists all groups too, and these are still to come.
    refused = alter(node, "groups", "readers", "--add-config", "consumer.heartbeat.interval.ms=1", fails=True)
    assert "group.consumer.min.heartbeat.interval.ms" in refused
    alter(node, "client-metrics", "mine", "--add-config", "interval.ms=5000,metrics=org.apache.kafka")
    assert "interval.ms=5000" in describe(node, "client-metrics", "mine")
    listed = run(node, TOOLS + "ClientMetricsCommand", "--list")
    assert "mine" in listed.split()
    alter(node, "client-metrics", "mine", "--delete-config", "interval.ms,metrics")
    alter(node, "groups", "readers", "--delete-config", "consumer.heartbeat.interval.ms")
    assert "mine" not in run(node, TOOLS + "ClientMetricsCommand", "--list").split()


def test_a_topic_grows(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)

    run(node, TOOLS + "TopicCommand", "--alter", "--topic", topic, "--partitions", "5")

    shown = run(node, TOOLS + "TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 5" in shown and shown.count("Leader: 1") == 5
    refused = run(node, TOOLS + "TopicCommand", "--alter", "--topic", topic, "--partitions", "3", fails=True)
    assert "would not be an increase" in refused


def test_a_topic_with_replicas_given_and_a_name_that_collides(node: NodeProcess) -> None:
    run(node, TOOLS + "TopicCommand", "--create", "--topic", "java.placed", "--replica-assignment", "1,1,1")
    assert "PartitionCount: 3" in run(node, TOOLS + "TopicCommand", "--describe", "--topic", "java.placed")
    refused = run(node, TOOLS + "TopicCommand", "--create", "--topic", "java_placed", fails=True)
    assert "collides with existing topic" in refused


def test_elections_and_reassignments_of_one_node(node: NodeProcess, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic()

    told = run(
        node, TOOLS + "LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "0"
    )  # fmt: skip
    assert "Valid replica already elected for partitions" in told
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}))
    moves = TOOLS + "reassign.ReassignPartitionsCommand"
    assert "Successfully started" in run(node, moves, "--execute", "--reassignment-json-file", str(plan))
    assert "is completed" in run(node, moves, "--verify", "--reassignment-json-file", str(plan))
    assert "No partition reassignments found." in run(node, moves, "--list")


def test_the_quorum_the_features_and_the_cluster(node: NodeProcess) -> None:
    status = run(node, TOOLS + "MetadataQuorumCommand", "describe", "--status")
    assert "LeaderId:               1" in status and '"id": 1' in status
    assert "Leader" in run(node, TOOLS + "MetadataQuorumCommand", "describe", "--replication")
    features = run(node, TOOLS + "FeatureCommand", "describe")
    assert "Feature: metadata.version" in features and "FinalizedVersionLevel: 4.3-IV0" in features
    refused = run(node, TOOLS + "FeatureCommand", "downgrade", "--feature", "metadata.version=29", fails=True)
    assert "might delete metadata information" in refused
    gone = tool(
        TOOLS + "ClusterTool", "unregister", "--bootstrap-server", node.address, "--id", "9"
    )  # fmt: skip
    assert "Broker ID 9 is not currently registered" in gone.stdout + gone.stderr
