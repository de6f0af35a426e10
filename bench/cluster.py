"""`python -m bench.cluster`: three nodes beside three of Apache Kafka: replicated writes, outages, start, memory.

--only NAME     parts whose name holds NAME
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from typing import Any

from bench import load, outages
from bench.bars import Bar, Direction
from bench.clusters import a_cluster_each
from bench.loads import Load, measure
from bench.nodes import Node
from bench.parts import Lone, Part, Plan, run

_LOADS = (
    Load("produce 100 B", "batched", {"size": 100, "records": 3_000_000, "idempotence": 1}, partitions=4),
    Load("produce 1 KB", "batched", {"size": 1000, "records": 500_000, "idempotence": 1}, partitions=4),
    Load("one in flight", "sync", {"size": 100, "records": 5_000, "idempotence": 1}),
    Load("latency at 1,000/s", "latency", {"size": 100, "rate": 1000, "seconds": 8, "idempotence": 1}),
)


def _replicated(load_: Load, node: Node, number: int) -> dict[str, Any]:
    return measure(node, load_, f"{load_.mode}-{load_.arguments['size']}-{number}")


def memory(node: Node, number: int) -> dict[str, Any]:
    return dict(node.memory_mb())


PARTS: dict[str, Part] = {
    **{load_.name: partial(_replicated, load_) for load_ in _LOADS},
    "memory after the load": memory,
}
STARTS = 5


def start(node: Node, number: int) -> dict[str, dict[str, Any]]:
    """Three processes to the first record that is acknowledged by all of them, on a topic that was there before."""
    node.start()
    node.create_topic("start", 1)
    node.forget_clients()
    node.stop()
    found: list[float] = []
    for _ in range(STARTS):
        os.sync()
        client = load.spawn("first-ack", node.bootstrap, topic="start", partitions=1, deadline=120)
        began = node.start(wait=False)
        try:
            found.append(load.collect(client)["acknowledged_at"] - began)
        except BaseException:
            client.kill()
            raise
        time.sleep(1)  # all have settled before they stop
        node.stop()
    return {"start": {"seconds": sorted(found)[STARTS // 2], "slowest": max(found)}}


def _bars() -> tuple[Bar, ...]:
    least, most = Direction.AT_LEAST, Direction.AT_MOST
    bars = [
        Bar("produce 100 B, RF 3", "produce 100 B", "rate", "records/s", least, 1.3),
        Bar("produce 1 KB, RF 3", "produce 1 KB", "mb_per_second", "MB/s", least, 1.15),
        Bar(
            "produce 100 B: CPU a million, all nodes",
            *("produce 100 B", "node_cpu_seconds_per_million"),
            "s/M",
            most,
            0.7,
        ),
        Bar("produce 1 KB: CPU a GB, all nodes", "produce 1 KB", "node_cpu_seconds_per_gb", "s/GB", most, 0.7),
        Bar("one in flight, RF 3", "one in flight", "rate", "records/s", least, 1.4),
        Bar("latency at 1,000/s: p50", "latency at 1,000/s", "latency_us.p50", "us", most, 0.7),
        Bar("latency at 1,000/s: p99", "latency at 1,000/s", "latency_us.p99", "us", most, 1.0),
        Bar("memory of the largest node", "memory after the load", "rss", "MB", most, 120.0, absolute=True),
        Bar("start of three nodes to first acknowledged record", "start", "seconds", "s", most, 0.3),
    ]
    for name in ("leader killed", "controller killed", "leader that is controller killed"):
        leads = name != "controller killed"
        worst = 2000.0 if name == "leader killed" else None
        if name == "leader killed":
            bars.append(Bar(f"{name}: new leader answers", name, "led_ms", "ms", most, 300.0, absolute=True))
        elif leads:
            bars.append(Bar(f"{name}: new leader answers", name, "led_ms", "ms", most))
        middle = 1000.0 if name != "leader that is controller killed" else 2000.0
        bars += [
            Bar(f"{name}: gap in writes, median", name, "gap_ms", "ms", most, middle, absolute=True),
            Bar(f"{name}: gap in writes, longest", name, "gap_worst_ms", "ms", most, worst, absolute=True),
            Bar(f"{name}: acknowledged and lost", name, "lost", "", most, 0.0, absolute=True),
        ]
    bars.append(Bar("leader paused: gap in writes, median", "leader paused", "gap_ms", "ms", most, 1.0))
    return tuple(bars)


LONE = {
    "start": Lone({}, start),
    "leader killed": Lone({}, outages.leader_killed),
    "controller killed": Lone({}, outages.controller_killed),
    "leader that is controller killed": Lone({}, outages.both_killed),
    "leader paused": Lone({}, outages.leader_paused),
}

if __name__ == "__main__":
    side = "Three nodes with three replicas and min.insync.replicas 2"
    sys.exit(run(Plan("cluster", __doc__ or "", PARTS, _bars(), lone=LONE, sides=a_cluster_each, side=side)))
