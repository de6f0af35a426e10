"""A topic in the remote tier of a node of the bench."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from bench import load
from bench.memory import Memory
from bench.nodes import Node
from bench.s3_gateway import settings
from ottla.testing.apache_kafka import Setting

PARTITIONS, RECORD = 4, 1000
RECORDS = int(os.environ.get("OTTLA_BENCH_TIER_RECORDS", 1_100_000))
SEGMENT = max(min(32 << 20, RECORDS * RECORD // PARTITIONS // 8), 1 << 20)
_PATIENCE_S = 300
COLD = {
    "remote.storage.enable": "true", "segment.bytes": str(SEGMENT), "local.retention.ms": "1", "retention.ms": "-1",
}  # fmt: skip
SETTINGS: dict[str, Setting] = {
    "remote.log.storage.system.enable": True,
    "remote.log.manager.task.interval.ms": 500,
    "rlmm.config.remote.log.metadata.topic.num.partitions": 5,
    "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
}


def produce(node: Node, topic: str, config: Mapping[str, str], records: int = RECORDS) -> float:
    node.create_topic(topic, PARTITIONS, dict(config))
    figures = load.run(
        "batched", node.bootstrap, topic=topic, partitions=PARTITIONS, size=RECORD, records=records, deadline=240
    )
    return float(figures["mb_per_second"])


def in_tier(node: Node, topic: str) -> int:
    """Waits until only what is still written to is on the disk; gives how many records are not."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        logs = [sorted((node.data / f"{topic}-{number}").glob("*.log")) for number in range(PARTITIONS)]
        if all(len(there) == 1 and int(there[0].stem) > 0 for there in logs):
            return sum(int(active.stem) for (active,) in logs)
        time.sleep(0.1)
    raise TimeoutError(f"{topic} is still on the disk after {_PATIENCE_S} s")


def at_rest(store: Path) -> None:
    """Waits until nothing is in the store any more, and all that was written is on the disk."""
    deadline = time.monotonic() + _PATIENCE_S
    while any(store.rglob("*.log")):
        if time.monotonic() > deadline:
            raise TimeoutError(f"deleted topics are still in the store after {_PATIENCE_S} s")
        time.sleep(0.1)
    os.sync()


def rewrite(node: Node, port: int) -> None:
    """The store is behind another port from the next start on."""
    properties = node.directory / "server.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("rsm.config.")]
    properties.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in settings(port).items())]) + "\n")


def first_start(node: Node, port: int) -> Memory:
    node.format()
    return _started(node, port)


def restart(node: Node, port: int) -> Memory:
    """With nothing in its memory."""
    node.stop()
    node.forget_clients()
    return _started(node, port)


def _started(node: Node, port: int) -> Memory:
    rewrite(node, port)
    node.start()
    memory = Memory(node.pid)
    memory.start()
    return memory
