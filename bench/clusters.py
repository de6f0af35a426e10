"""Three nodes with both roles on each side, started, stopped and looked at like one node of bench/nodes.py."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.nodes import KafkaNode, Node, OttlaNode
from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import Setting

SIZE = 3
SETTINGS: dict[str, Setting] = {
    "default.replication.factor": SIZE,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": SIZE,
}


class Cluster(Node):
    """Its figures are those of all members together, its memory that of the largest."""

    replication_factor = SIZE

    def __init__(self, kind: type[Node], directory: Path, settings: Mapping[str, Setting]) -> None:
        super().__init__(directory, **settings)
        self.side = kind.side
        self.members = {number: kind(directory / f"node-{number}") for number in range(1, SIZE + 1)}
        controllers = {number: apache_kafka.free_port() for number in self.members}
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in controllers.items())
        for number, member in self.members.items():
            member.cluster_id = self.cluster_id
            member.settings |= SETTINGS | dict(settings)
            member.settings |= {
                "node.id": number,
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{member.bootstrap},CONTROLLER://127.0.0.1:{controllers[number]}",
            }
        self.bootstrap = ",".join(member.bootstrap for member in self.members.values())

    def format(self) -> None:
        for member in self.members.values():
            member.format()

    def start(self, *, wait: bool = True) -> float:
        self.format()
        began = time.monotonic()
        for member in self.members.values():
            member.start(wait=False)
        if wait:
            self.wait_until_complete()
        return began

    def wait_until_complete(self) -> None:
        """Until a client sees all members."""
        deadline = time.monotonic() + 60
        while len(self.admin.list_topics(timeout=60).brokers) < len(self.members):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.side}: not all of {len(self.members)} nodes are there after 60 s")
            time.sleep(0.05)

    def stop(self) -> None:
        """All at once; Kafka's last node finds no controller to say goodbye to, and is ended."""
        with ThreadPoolExecutor() as pool:
            stopping = [(member, pool.submit(member.stop)) for member in self.members.values()]
        for member, stopped in stopping:
            if isinstance(stopped.exception(), TimeoutError):
                member.kill()
            else:
                stopped.result()

    def kill(self) -> None:
        for member in self.members.values():
            member.kill()

    @property
    def pid(self) -> int:
        raise NotImplementedError("a cluster has as many processes as members")

    def cpu_seconds(self) -> float:
        return sum(member.cpu_seconds() for member in self.members.values())

    def memory_mb(self) -> dict[str, float]:
        return max((member.memory_mb() for member in self.members.values()), key=lambda found: found["rss"])

    def loop_lag(self) -> dict[str, float] | None:
        found = [lag for member in self.members.values() if (lag := member.loop_lag()) is not None]
        return max(found, key=lambda lag: lag["p99.9"]) if found else None

    def delete_topic(self, name: str) -> None:
        super().delete_topic(name)
        for member in self.members.values():
            deadline = time.monotonic() + 30
            while any(member.data.glob(f"{name}*-*")) and time.monotonic() < deadline:
                time.sleep(0.05)


def a_cluster_each(folder: Path, settings: Mapping[str, Setting]) -> dict[str, Node]:
    return {kind.side: Cluster(kind, folder / kind.side, settings) for kind in (KafkaNode, OttlaNode)}
