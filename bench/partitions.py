"""Many partitions on one node: how long they take to make and to open, and what they cost while nothing happens."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewTopic

from bench.nodes import Node

THOUSANDS = 10
_IDLE_SECONDS = 15
_PATIENCE_S = 400
SETTLED: dict[str, int] = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500}
"""So that after kill -9 Apache Kafka does not only wait for its own former session to run out."""


def create_thousand(node: Node, number: int) -> dict[str, Any]:
    """One topic of 1,000 partitions, until all leaders are known."""
    name = f"thousand-{number}"
    began = time.monotonic()
    node.admin.create_topics([NewTopic(name, 1000, 1)], operation_timeout=60)[name].result(timeout=120)
    _all_led(node, 1000, name)
    figures = {"seconds": time.monotonic() - began}
    node.delete_topic(name)
    return figures


def ten_thousand(node: Node, number: int) -> dict[str, dict[str, Any]]:
    """The costs of 10,000 partitions on a fresh node: figures by what was looked at."""
    node.format()
    node.start()
    time.sleep(5)
    before = node.memory_mb()["rss"]
    began = time.monotonic()
    for topic in range(THOUSANDS):
        name = f"many-{topic}"
        node.admin.create_topics([NewTopic(name, 1000, 1)], operation_timeout=60)[name].result(timeout=120)
    count = THOUSANDS * 1000
    _all_led(node, count)
    created = time.monotonic() - began
    _all_on_disk(node, count)  # both sides make most of them after they have answered
    time.sleep(5)
    memory = (node.memory_mb()["rss"] - before) / THOUSANDS
    cpu = node.cpu_seconds()
    time.sleep(_IDLE_SECONDS)
    idle = (node.cpu_seconds() - cpu) / _IDLE_SECONDS * 100
    began = time.monotonic()
    node.stop()
    stopped = time.monotonic() - began
    clean = _start(node, count)
    node.kill()
    killed = _start(node, count)
    node.stop()
    return {
        "10,000 partitions: made": {"seconds": created},
        "10,000 partitions: memory": {"mb_per_thousand": memory},
        "10,000 partitions: idle": {"percent_of_a_core": idle},
        "10,000 partitions: stop": {"seconds": stopped},
        "10,000 partitions: clean restart": {"seconds": clean},
        "10,000 partitions: restart after kill -9": {"seconds": killed},
    }


def _start(node: Node, count: int) -> float:
    """From the start of the process until each partition has a leader that is there."""
    node.forget_clients()
    began = node.start(wait=False)
    _all_led(node, count)
    return time.monotonic() - began


def _all_on_disk(node: Node, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if sum(1 for _ in node.data.glob("many-*/partition.metadata")) >= count:
            return
        time.sleep(1)
    raise TimeoutError(f"{node.side}: {count} partitions are not on the disk after {_PATIENCE_S} s")


def _all_led(node: Node, count: int, name: str | None = None) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            listed = node.admin.list_topics(name, timeout=30) if name else node.admin.list_topics(timeout=30)
        except KafkaException:
            time.sleep(0.1)
            continue
        led = sum(p.leader >= 0 for topic in listed.topics.values() for p in topic.partitions.values())
        if led >= count:
            return
        time.sleep(0.05)
    raise TimeoutError(f"{node.side}: {count} partitions are not led after {_PATIENCE_S} s")
