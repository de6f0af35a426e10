"""What clients notice when a node of a cluster dies or stands still: who leads, and for how long nobody can write."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from bench.clusters import Cluster
from bench.nodes import Node
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.model.errors import OttlaError
from ottla.model.names import METADATA_TOPIC
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection

OUTAGES = {"kafka": 3, "ottla": 20}
"""An outage of Apache Kafka takes it so long that more would not tell more."""
_METADATA, _LIST_OFFSETS, _DESCRIBE_QUORUM = 3, 2, 55
_EVERY_S = 0.005
_LOOK_EVERY_S = 0.005
_TOO_LONG_S = 200.0  # a client waits a minute for the answer of a node that was paused, and then begins anew


class Writer:
    """Writes a numbered record every few milliseconds, and knows when each was acknowledged."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "enable.idempotence": True}
        self._producer = Producer({**settings, "message.timeout.ms": 120_000, "log_level": 0})
        self._topic = topic
        self.acknowledged: dict[int, float] = {}
        self.failed: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(_EVERY_S):
            self._send(number)
            number += 1
            self._producer.poll(0)
        self._producer.flush(120)

    def _send(self, number: int) -> None:
        def told(error: object, message: object) -> None:
            if error is None:
                self.acknowledged[number] = time.monotonic()
            else:
                self.failed.append(number)

        self._producer.produce(self._topic, str(number).encode(), partition=0, on_delivery=told)

    def wait_for_acknowledgement(self, after: float) -> None:
        deadline = time.monotonic() + _TOO_LONG_S
        while max(self.acknowledged.values(), default=0.0) <= after:
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing was acknowledged for {_TOO_LONG_S:.0f} s")
            time.sleep(0.01)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def longest_gap(self, since: float) -> float:
        times = sorted(at for at in self.acknowledged.values() if at >= since - 1)
        return max(later - earlier for earlier, later in pairwise(times))


def _end(member: Node) -> None:
    member.kill()


def _pause(member: Node) -> None:
    os.kill(member.pid, signal.SIGSTOP)


def leader_killed(node: Node, number: int) -> dict[str, dict[str, Any]]:
    return {"leader killed": _outages(node, leads=True, controls=False, strike=_end)}


def controller_killed(node: Node, number: int) -> dict[str, dict[str, Any]]:
    return {"controller killed": _outages(node, leads=False, controls=True, strike=_end)}


def both_killed(node: Node, number: int) -> dict[str, dict[str, Any]]:
    return {"leader that is controller killed": _outages(node, leads=True, controls=True, strike=_end)}


def leader_paused(node: Node, number: int) -> dict[str, dict[str, Any]]:
    return {"leader paused": _outages(node, leads=True, controls=False, strike=_pause, times=3)}


def _outages(
    node: Node, *, leads: bool, controls: bool, strike: Callable[[Node], None], times: int | None = None
) -> dict[str, Any]:
    cluster = cast(Cluster, node)
    cluster.start()
    led, gaps, lost, failed = [], [], 0, 0
    try:
        for number in range(times or OUTAGES[cluster.side]):
            found = _outage(cluster, number, leads, controls, strike)
            led.append(found["led_ms"])
            gaps.append(found["gap_ms"])
            lost += found["lost"]
            failed += found["failed"]
            print(f"        {cluster.side} {number}: {found}", flush=True)
    finally:
        for member in cluster.members.values():
            member.kill()
    return {
        "led_ms": statistics.median(led),
        "led_worst_ms": max(led),
        "gap_ms": statistics.median(gaps),
        "gap_worst_ms": max(gaps),
        "lost": lost,
        "failed": failed,
        "outages": len(gaps),
    }


def _outage(
    cluster: Cluster, number: int, leads: bool, controls: bool, strike: Callable[[Node], None]
) -> dict[str, Any]:
    controller = asyncio.run(active_controller(cluster))
    rest = [each for each in cluster.members if each != controller]
    victim = controller if controls else rest[number % len(rest)]  # in turn: one that keeps dying is another matter
    others = [each for each in cluster.members if each != victim]
    topic = f"outage-{number}"
    replicas = [victim, *others] if leads else [*others, victim]
    cluster.admin.create_topics([NewTopic(topic, 1, replica_assignment=[replicas])])[topic].result(timeout=30)
    _wait_for_isr(cluster, topic)
    writer = Writer(cluster.bootstrap, topic)
    try:
        writer.wait_for_acknowledgement(time.monotonic() + 0.5)
        struck = time.monotonic()
        strike(cluster.members[victim])
        answered = asyncio.run(_until_led(cluster, topic, others)) - struck
        writer.wait_for_acknowledgement(struck + max(answered, 0.5))
        time.sleep(0.5)
    finally:
        writer.stop()
    lost = _lost(",".join(cluster.members[each].bootstrap for each in others), topic, writer.acknowledged)
    cluster.members[victim].kill()
    cluster.members[victim].start(wait=False)
    cluster.wait_until_complete()
    _wait_for_isr(cluster, topic)
    return {
        "led_ms": round(answered * 1000),
        "gap_ms": round(writer.longest_gap(struck) * 1000),
        "lost": lost,
        "failed": len(writer.failed),
    }


def _wait_for_isr(cluster: Cluster, topic: str) -> None:
    deadline = time.monotonic() + _TOO_LONG_S
    while True:
        found = cluster.admin.list_topics(topic, timeout=30).topics[topic].partitions
        if found and all(len(each.isrs) == len(cluster.members) for each in found.values()):
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{cluster.side}: {topic} has not all replicas in sync after {_TOO_LONG_S:.0f} s")
        time.sleep(0.05)


def _lost(bootstrap: str, topic: str, acknowledged: dict[int, float]) -> int:
    """How many acknowledged records cannot be read; a negative number if records are doubled."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "outages", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[int] = []
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    while len(found) < end:
        message = consumer.poll(10)
        if message is None or message.error():
            break
        found.append(int(message.value() or b"-1"))
    consumer.close()
    missing = len(set(acknowledged) - set(found))
    return missing if missing else len(set(found)) - len(found)


# -- asked over the wire


async def _open(address: str) -> Connection:
    nothing = cast(Any, None)
    env = Env(clock=nothing, disk=nothing, network=TcpNetwork(), executor=nothing, random=nothing)
    host, _, port = address.rpartition(":")
    return await Connection.open(env, host, int(port), within=2)


async def active_controller(cluster: Cluster) -> int:
    """The node that leads the metadata quorum."""
    partitions = [{"partition_index": 0}]
    request = build(
        request_type(_DESCRIBE_QUORUM, 2), {"topics": [{"topic_name": METADATA_TOPIC, "partitions": partitions}]}
    )
    deadline = time.monotonic() + _TOO_LONG_S
    while True:
        for member in cluster.members.values():
            try:
                async with await _open(member.bootstrap) as connection:
                    answer = await connection.call(request, within=5)
                leader = answer.topics[0].partitions[0].leader_id if answer.topics else -1
                if leader in cluster.members:
                    return int(leader)
            except OttlaError:
                pass
        if time.monotonic() > deadline:
            raise TimeoutError(f"{cluster.side}: nobody knows the active controller")
        await asyncio.sleep(0.05)


async def _until_led(cluster: Cluster, topic: str, survivors: list[int]) -> float:
    """When one of the survivors says that one of them leads, and that one answers as leader."""
    deadline = time.monotonic() + _TOO_LONG_S
    connections = {each: await _open(cluster.members[each].bootstrap) for each in survivors}
    flags = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    metadata = build(request_type(_METADATA, 12), {"topics": [{"name": topic, "topic_id": None}], **flags})
    try:
        while time.monotonic() < deadline:
            for connection in list(connections.values()):
                found = (await connection.call(metadata, within=5)).topics[0].partitions
                leader = found[0].leader_id if found else -1
                if leader in connections and await _answers_as_leader(connections[leader], topic):
                    return time.monotonic()
            await asyncio.sleep(_LOOK_EVERY_S)
    finally:
        for connection in connections.values():
            await connection.close()
    raise TimeoutError(f"{cluster.side}: {topic} has no new leader after {_TOO_LONG_S:.0f} s")


async def _answers_as_leader(connection: Connection, topic: str) -> bool:
    latest = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
    topics = [{"name": topic, "partitions": latest}]
    request = build(request_type(_LIST_OFFSETS, 6), {"replica_id": -1, "isolation_level": 0, "topics": topics})
    answer = await connection.call(request, within=5)
    return int(answer.topics[0].partitions[0].error_code) == 0
