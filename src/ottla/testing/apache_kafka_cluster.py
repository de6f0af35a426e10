"""Several nodes of Apache Kafka as one cluster, each with both roles: the peer of a cluster of ours.

with running_cluster(folder, 3) as kafka:
    Producer({"bootstrap.servers": kafka.bootstrap})
    kafka.nodes[2].kill()
    kafka.start_again(2)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ottla.testing.apache_kafka import ApacheKafka, Setting, free_port, random_cluster_id


@dataclass(slots=True)
class ApacheKafkaCluster:
    directory: Path
    nodes: dict[int, ApacheKafka]
    settings: Mapping[int, Mapping[str, Setting]]
    """By node, as they are given to `ApacheKafka.start`."""

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start_again(self, node_id: int) -> None:
        """On the same port, with the same data."""
        old = self.nodes[node_id]
        self.nodes[node_id] = ApacheKafka.start(
            old.directory, old.port, wait=True, cluster_id=None, **self.settings[node_id]
        )


@contextmanager
def running_cluster(directory: Path, number: int, **settings: Setting) -> Iterator[ApacheKafkaCluster]:
    """Nodes 1 to `number`. A setting's `_` stands for `.`; node-dependent ones are made here."""
    ports = {node_id: (free_port(), free_port()) for node_id in range(1, number + 1)}
    voters = ",".join(f"{node_id}@127.0.0.1:{controller}" for node_id, (_, controller) in ports.items())
    copies = min(number, 3)
    given: dict[int, dict[str, Setting]] = {
        node_id: {
            "node_id": node_id,
            "controller_quorum_voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "offsets_topic_replication_factor": copies,
            "transaction_state_log_replication_factor": copies,
            "share_coordinator_state_topic_replication_factor": copies,
            "broker_rack": f"rack-{node_id}",
            **settings,
        }
        for node_id, (port, controller) in ports.items()
    }
    cluster_id = random_cluster_id()
    cluster = ApacheKafkaCluster(directory, {}, given)
    try:
        for node_id, (port, _) in ports.items():
            cluster.nodes[node_id] = ApacheKafka.start(
                directory / f"node-{node_id}", port, wait=False, cluster_id=cluster_id, **given[node_id]
            )
        for node in cluster.nodes.values():
            node.wait_until_listening()
        yield cluster
    finally:
        for node in cluster.nodes.values():
            node.kill()
