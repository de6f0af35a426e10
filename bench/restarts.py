"""How soon a node serves: after a clean stop, and after kill -9 with a gigabyte behind the recovery point."""

from __future__ import annotations

import os
from typing import Any

from bench import load
from bench.nodes import Node

TOPIC = "restarts"
RECOVERY_RECORDS, RECOVERY_SIZE = 1_000_000, 1000

# After kill -9 a Kafka node waits until the session of its former self runs out, 9 s by default, before its broker may
# register again. That is no work of recovery, so it is made short for both sides.
SHORT_SESSION = {"broker.session.timeout.ms": 1000, "broker.heartbeat.interval.ms": 200}


def prepare_starts(node: Node) -> None:
    """Formatted storage with one topic, cleanly stopped."""
    node.format()
    node.start()
    node.create_topic(TOPIC, 1)
    node.forget_clients()
    node.stop()


def start_once(node: Node) -> dict[str, Any]:
    """Process start to first acknowledged record, by a client that is already waiting; then a clean stop."""
    figures = _until_acknowledged(node, partitions=1)
    node.stop()
    return figures


def recover_once(node: Node, partitions: int) -> dict[str, Any]:
    """Writes a gigabyte within the first segments, so that the recovery point stays at 0; kill -9; start again."""
    node.format()
    node.start()
    try:
        node.create_topic(TOPIC, partitions)
        load.run(
            "batched",
            node.bootstrap,
            topic=TOPIC,
            partitions=partitions,
            size=RECOVERY_SIZE,
            records=RECOVERY_RECORDS,
            idempotence=1,
            deadline=240,
        )
        node.forget_clients()
    finally:
        node.kill()
    os.sync()  # writing back the dirty pages is not recovery either, and would fall into it by chance
    figures = _until_acknowledged(node, partitions)
    node.stop()
    # Every partition had one record before the load (load.c's first_record) and gets one after the restart.
    if figures["sum_of_offsets"] != RECOVERY_RECORDS + partitions:
        raise RuntimeError(f"{node.side}: records are missing or doubled after kill -9: {figures}")
    return figures


def _until_acknowledged(node: Node, partitions: int) -> dict[str, Any]:
    client = load.spawn("first-ack", node.bootstrap, topic=TOPIC, partitions=partitions, deadline=120)
    began = node.start(wait=False)
    try:
        figures = load.collect(client)
        before = node.cpu_seconds()
    except BaseException:
        client.kill()
        node.kill()
        raise
    return {
        "seconds": round(figures["acknowledged_at"] - began, 4),
        "listening_after_seconds": round(figures["listening_at"] - began, 4),
        "node_cpu_seconds": round(before, 2),
        "sum_of_offsets": figures["sum_of_offsets"],
    }
