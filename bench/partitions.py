"""Many partitions: how long it takes to make them, to start with them, and what they cost while nobody uses them."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, cast

from confluent_kafka import Producer

from bench.nodes import Node
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection, ConnectionFailed

A_TOPIC = 1000
_IDLE_SECONDS = 20
_METADATA, _METADATA_VERSION = 3, 12
_WITHIN_S = 300


def make(node: Node, partitions: int) -> dict[str, dict[str, Any]]:
    """From nothing to many: a topic of a thousand, timed; then the rest; then a record in each tenth partition."""
    node.format()
    node.start()
    before = node.memory_mb()["rss"]
    seconds = [_make_topic(node, number) for number in range(partitions // A_TOPIC)]
    _write_some(node, partitions)
    grown = node.memory_mb()["rss"] - before
    cpu = node.cpu_seconds()
    time.sleep(_IDLE_SECONDS)
    busy = node.cpu_seconds() - cpu
    return {
        "a topic of 1,000 partitions": {"seconds": round(seconds[0], 3), "last_seconds": round(seconds[-1], 3)},
        "memory": {"mb_per_thousand": round(grown / partitions * 1000, 2)},
        "idle": {"percent_of_a_core": round(busy / _IDLE_SECONDS * 100, 2)},
    }


def restart(node: Node, partitions: int, *, cleanly: bool) -> dict[str, Any]:
    """From the start of the process until every partition has a leader."""
    if cleanly:
        node.stop()
    else:
        node.kill()
    os.sync()  # writing back what the stop has left is no work of the start
    began = node.start(wait=False)
    asyncio.run(_until_led(node, partitions))
    return {"seconds": round(time.monotonic() - began, 3), "node_cpu_seconds": round(node.cpu_seconds(), 2)}


def _make_topic(node: Node, number: int) -> float:
    began = time.monotonic()
    node.create_topic(_name(number), A_TOPIC)
    return time.monotonic() - began


def _name(number: int) -> str:
    return f"many-{number}"


def _write_some(node: Node, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "log_level": 0, "linger.ms": 50})
    for number in range(0, partitions, 10):
        producer.produce(_name(number // A_TOPIC), b"x" * 100, partition=number % A_TOPIC)
        producer.poll(0)
    if producer.flush(120):
        raise TimeoutError(f"{node.side}: not all records were acknowledged")


async def _until_led(node: Node, partitions: int) -> None:
    """One connection that asks for all topics again and again, the same for both sides."""
    nothing = cast(Any, None)
    env = Env(clock=nothing, disk=nothing, network=TcpNetwork(), executor=nothing, random=nothing)
    values = {"topics": None, "allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    question = build(request_type(_METADATA, _METADATA_VERSION), values)
    deadline = time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline:
        try:
            async with await Connection.open(env, "127.0.0.1", node.port) as connection:
                while time.monotonic() < deadline:
                    answer = await connection.call(question, within=30)
                    led = sum(row.leader_id >= 0 for topic in answer.topics for row in topic.partitions)
                    if led >= partitions:
                        return
                    await asyncio.sleep(0.1)
        except (ConnectionFailed, OSError):
            await asyncio.sleep(0.02)
    raise TimeoutError(f"{node.side}: not all of {partitions} partitions have a leader")
