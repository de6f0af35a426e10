"""The loads: what is sent to a node, and what is kept of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from bench import load
from bench.nodes import Node

MiB = 1 << 20


@dataclass(frozen=True, slots=True)
class Load:
    """One run of the generator. `filled` loads read a topic that was written once, before the rounds."""

    name: str
    mode: str
    arguments: dict[str, int]
    partitions: int = 1
    topic_config: dict[str, str] = field(default_factory=dict)
    filled: bool = False
    deadline: int = 240

    def scaled(self, share: float) -> Load:
        """The same load with fewer records or seconds."""
        what = "seconds" if "seconds" in self.arguments else "records"
        return replace(self, arguments={**self.arguments, what: max(2, round(self.arguments[what] * share))})


def _with_and_without_idempotence(load: Load) -> list[Load]:
    return [
        replace(load, name=f"{load.name}{suffix}", arguments={**load.arguments, "idempotence": value})
        for suffix, value in (("", 0), (", idempotent", 1))
    ]


def _single(connections: int, records: int) -> Load:
    plural = "s" if connections > 1 else ""
    arguments = {"size": 100, "connections": connections, "records": records}
    return Load(f"one record a request, {connections} connection{plural}", "single", arguments, partitions=4)


LOADS: tuple[Load, ...] = (
    *_with_and_without_idempotence(
        Load("produce 100 B", "batched", {"size": 100, "records": 6_000_000}, partitions=4),
    ),
    *_with_and_without_idempotence(
        Load("produce 1 KB", "batched", {"size": 1000, "records": 1_200_000}, partitions=4),
    ),
    Load("consume 1 KB", "consume", {"size": 1000, "records": 1_000_000}, partitions=4, filled=True),
    *_with_and_without_idempotence(_single(1, 30_000)),
    *_with_and_without_idempotence(_single(8, 48_000)),
    *_with_and_without_idempotence(_single(64, 64_000)),
    *_with_and_without_idempotence(
        Load("one in flight", "sync", {"size": 100, "records": 20_000}),
    ),
    *_with_and_without_idempotence(
        Load("latency at 1,000/s", "latency", {"size": 100, "rate": 1000, "seconds": 8}),
    ),
    Load(
        "produce 1 KB, rolls and retention",
        "batched",
        {"size": 1000, "records": 600_000, "idempotence": 1},
        partitions=4,
        # 4 MiB a segment and 16 MiB kept: some 150 rolls, nearly all of them deleted while the load goes on.
        topic_config={"segment.bytes": str(4 * MiB), "retention.bytes": str(16 * MiB)},
    ),
)


def fill(node: Node, load_: Load, topic: str) -> None:
    """Writes what a `filled` load will read."""
    node.create_topic(topic, load_.partitions, load_.topic_config)
    load.run(
        "batched",
        node.bootstrap,
        topic=topic,
        partitions=load_.partitions,
        size=load_.arguments["size"],
        records=load_.arguments["records"],
        deadline=load_.deadline,
    )
    os.sync()


def measure(node: Node, load_: Load, topic: str) -> dict[str, Any]:
    """Runs a load on a topic of its own; the generator's figures, the node's CPU seconds and its loop lag."""
    if not load_.filled:
        node.create_topic(topic, load_.partitions, load_.topic_config)
    node.loop_lag()  # begins a new period
    before = node.cpu_seconds()
    figures = load.run(
        load_.mode,
        node.bootstrap,
        topic=topic,
        partitions=load_.partitions,
        deadline=load_.deadline,
        **load_.arguments,
    )
    figures["node_cpu_seconds"] = round(node.cpu_seconds() - before, 3)
    figures["node_cpu_seconds_per_million"] = round(figures["node_cpu_seconds"] / figures["records"] * 1e6, 4)
    figures["node_cpu_seconds_per_gb"] = round(figures["node_cpu_seconds"] / figures["bytes"] * 1e9, 4)
    lag = node.loop_lag()
    if lag is not None:
        figures["loop_lag_ms"] = lag
    if not load_.filled:
        node.delete_topic(topic)
    os.sync()
    return figures
