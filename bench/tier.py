"""`python -m bench.tier`: the remote tier over the S3 protocol on loopback.

--only NAME     parts whose name holds NAME

Needs versitygw, an S3 server with real files, beside the node, and PySpark for the part that reads with Spark. Apache
Kafka's distribution has no remote storage of its own to stand beside: figures are held against the same node without
the tier, or without a way past it, and against plain limits. OTTLA_BENCH_TIER_RECORDS makes it smaller than 1.1 million
records of 1 KB, OTTLA_BENCH_TIER_SPARK_RECORDS what Spark reads smaller than 5 million.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from bench import load
from bench.bars import Bar, Direction
from bench.nodes import Node, OttlaNode
from bench.parts import Lone, Plan, run
from bench.s3_gateway import NoGateway, gateway, long_way
from bench.s3_reader import round_trip_ms
from bench.tiered import COLD, PARTITIONS, RECORD, SEGMENT, SETTINGS, at_rest, first_start, in_tier, produce, restart
from bench.tiered_spark import read_with_spark

DELAY_MS = 50
PAIRS = 7  # of writing with and without: each takes a second or two, and one is not like the other
LAST = f"on-{PAIRS}"


def consume(node: Node, topic: str, records: int) -> float:
    figures = load.run(
        "consume", node.bootstrap, topic=topic, partitions=PARTITIONS, size=RECORD, records=records, deadline=240
    )
    return float(figures["mb_per_second"])


def latency(node: Node, topic: str, seconds: int) -> float:
    node.create_topic(topic, 1)
    figures = load.run(
        "latency", node.bootstrap, topic=topic, partitions=1, size=100, rate=1000, seconds=seconds, deadline=120
    )
    return float(figures["latency_us"]["p99"]) / 1000


def first_bytes(node: Node, topic: str) -> list[float]:
    """Milliseconds until the first record of segments that nobody has read yet comes, by one who is connected."""
    took = []
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap, "group.id": "first", "enable.auto.commit": False, "log_level": 0,
            "fetch.wait.max.ms": 1, "fetch.error.backoff.ms": 0,  # what it waits for at the end is not counted
        }
    )  # fmt: skip
    try:
        ends = {n: consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=30)[1] for n in range(PARTITIONS)}
        for number, end in ends.items():
            consumer.assign([TopicPartition(topic, number, end - 1)])  # connects, and knows the leader
            assert consumer.poll(30) is not None
            for share in (0.13, 0.37, 0.61, 0.83):
                began = time.perf_counter()
                consumer.seek(TopicPartition(topic, number, int(end * share)))
                while (message := consumer.poll(30)) is None or message.offset() != int(end * share):
                    assert time.perf_counter() - began < 30
                took.append((time.perf_counter() - began) * 1000)
                consumer.seek(TopicPartition(topic, number, end - 1))
                time.sleep(0.5)  # what is read ahead has come
    finally:
        consumer.close()
    return sorted(took)


def measured(node: Node, number: int) -> dict[str, dict[str, Any]]:
    with ExitStack() as stack:
        store = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-bench-s3-")))
        near = stack.enter_context(gateway(store))
        far = stack.enter_context(long_way(near, DELAY_MS))
        memory = first_start(node, near)
        found: dict[str, dict[str, Any]] = {}
        off: list[float] = []
        on: list[float] = []
        for turn in range(1 + PAIRS):  # the first warms up
            for kept, config in ((off, {"segment.bytes": str(SEGMENT)}), (on, COLD))[:: 1 if turn % 2 else -1]:
                topic = f"{'on' if kept is on else 'off'}-{turn}"
                kept.append(produce(node, topic, config))
                if kept is on:
                    in_tier(node, topic)
                if topic != LAST:
                    node.delete_topic(topic)
                    at_rest(store)
        rates = sorted(round(a / b, 3) for a, b in zip(on[1:], off[1:], strict=True))
        found["produce"] = {
            "on": statistics.median(on[1:]),
            "off": statistics.median(off[1:]),
            "ratio": round(statistics.median(rates), 3),
            "ratios": rates,
            "memory_mb": memory.end(),
        }
        topic, records = LAST, in_tier(node, LAST)
        for name, port in (("read back", near), ("read back, 50 ms", far)):
            memory = restart(node, port)
            found[name] = {"mb_per_second": consume(node, topic, records), "memory_mb": memory.end()}
        memory = restart(node, far)
        took, trip = first_bytes(node, topic), round_trip_ms(far)
        middle = took[len(took) // 2]
        found["first byte"] = {
            "p50_ms": middle, "worst_ms": took[-1], "round_trip_ms": trip, "above_round_trip_ms": middle - trip,
            "above_delay_ms": middle - DELAY_MS, "memory_mb": memory.end(),
        }  # fmt: skip
        memory = restart(node, near)
        os.sync()  # what was written before is not to be felt
        latency(node, "warm-up", 4)
        calm = latency(node, "calm", 8)
        past = subprocess.Popen([sys.executable, "-m", "bench.s3_reader", str(near), "12"])
        straight = latency(node, "straight", 8)
        past.wait()
        reading = threading.Thread(target=lambda: [consume(node, topic, records) for _ in range(3)])
        reading.start()
        busy = latency(node, "busy", 8)
        reading.join()
        found["tail"] = {
            "calm_p99_ms": calm, "busy_p99_ms": busy, "ratio": round(busy / calm, 2), "straight_p99_ms": straight,
            "ratio_to_straight": round(busy / straight, 2), "memory_mb": memory.end(),
        }  # fmt: skip
        found["memory"] = {"most_mb": max(figures["memory_mb"] for figures in found.values())}
        node.stop()
        return found


PLAN = Plan(
    "tier",
    __doc__ or "",
    {},
    (
        Bar("produce with the tier, to that without", "produce", "ratio", "", Direction.AT_LEAST, 0.9, absolute=True),
        Bar("read back over S3", "read back", "mb_per_second", "MB/s", Direction.AT_LEAST, 200, absolute=True),
        Bar("read back, 50 ms a request", "read back, 50 ms", "mb_per_second", "MB/s", Direction.AT_LEAST, 100,
            absolute=True),
        Bar("first byte, above a round trip to the store", "first byte", "above_round_trip_ms", "ms",
            Direction.AT_MOST, 20, absolute=True),
        Bar("first byte, above the 50 ms that were added", "first byte", "above_delay_ms", "ms", Direction.AT_MOST),
        Bar("tail p99 beside cold reads, to that without", "tail", "ratio", "", Direction.AT_MOST, 1.5, absolute=True),
        Bar("tail p99 beside cold reads, to that beside reads past the node", "tail", "ratio_to_straight", "",
            Direction.AT_MOST),
        Bar("memory of the node", "memory", "most_mb", "MB", Direction.AT_MOST, 300, absolute=True),
        Bar("Spark straight from the store, to that through the broker", "spark", "ratio", "", Direction.AT_LEAST, 1.5,
            absolute=True),
        Bar("the broker's CPU meanwhile, of a core", "spark", "broker_share", "", Direction.AT_MOST, 0.05,
            absolute=True),
    ),
    alone="The remote tier over the S3 protocol on loopback (versitygw)",
    lone={"tier": Lone(SETTINGS, measured), "spark": Lone(SETTINGS, read_with_spark)},
    sides=lambda folder, given: {"ottla": OttlaNode(folder / "ottla", **given)},
)  # fmt: skip


if __name__ == "__main__":
    try:
        sys.exit(run(PLAN))
    except NoGateway as error:
        sys.exit(f"bench: {error}")
