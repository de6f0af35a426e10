"""What real consumers feel of a rebalance: how long a partition is read by nobody."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.nodes import Node

PARTITIONS = 12
MEMBERS = 3
STATIC_MEMBERS = 5
_RATE = 100  # records a second for each partition
_PATIENCE_S = 60
_HEARTBEAT_MS = 500

Settings = dict[str, Any]


def eager(node: Node, number: int) -> dict[str, Any]:
    return _add_one(node, f"eager-{number}", {"partition.assignment.strategy": "range"})


def cooperative(node: Node, number: int) -> dict[str, Any]:
    return _add_one(node, f"cooperative-{number}", {"partition.assignment.strategy": "cooperative-sticky"})


def consumer(node: Node, number: int) -> dict[str, Any]:
    return _add_one(node, f"consumer-{number}", {"group.protocol": "consumer"})


def restart_static_members(node: Node, number: int) -> dict[str, Any]:
    """One after the other; a rebalance is a new assignment for one who was not restarted."""
    topic = f"static-{number}"
    node.create_topic(topic, PARTITIONS)
    names = [f"{topic}-{name}" for name in range(STATIC_MEMBERS)]
    members = [_Member(node, topic, {"group.instance.id": name}) for name in names]
    _until(lambda: sum(len(member.owned) for member in members) == PARTITIONS and all(m.owned for m in members))
    time.sleep(2 * _HEARTBEAT_MS / 1000)
    before = [member.assignments for member in members]
    for place, name in enumerate(names):
        members[place].stop()
        members[place] = back = _Member(node, topic, {"group.instance.id": name})
        _until(back.has_some)
        before[place] = back.assignments
    time.sleep(2 * _HEARTBEAT_MS / 1000)
    rebalances = sum(member.assignments - was for member, was in zip(members, before, strict=True))
    for member in members:
        member.stop()
    node.delete_topic(topic)
    return {"rebalances": rebalances}


def _add_one(node: Node, name: str, settings: Settings) -> dict[str, Any]:
    """The longest time in which no record of a partition came to anyone, while a fourth member joins three."""
    node.create_topic(name, PARTITIONS)
    feeding = _Feeding(node, name)
    members = [_Member(node, name, settings) for _ in range(MEMBERS)]
    _until(lambda: sum(len(member.owned) for member in members) == PARTITIONS and all(m.owned for m in members))
    time.sleep(1)
    began = time.monotonic()
    members.append(_Member(node, name, settings))
    _until(lambda: sum(len(member.owned) for member in members) == PARTITIONS and bool(members[-1].owned))
    settled = time.monotonic()
    time.sleep(1)
    for member in members:
        member.stop()
    feeding.stop()
    node.delete_topic(name)
    pauses = _pauses(members, began, settled + 1)
    return {"longest_ms": max(pauses) * 1000, "sum_ms": sum(pauses) * 1000, "settled_ms": (settled - began) * 1000}


def _pauses(members: list[_Member], start: float, end: float) -> list[float]:
    """For each partition the longest gap between two records."""
    longest = []
    for partition in range(PARTITIONS):
        seen = sorted(at for member in members for at, which in member.seen if which == partition and start <= at < end)
        longest.append(max(later - earlier for earlier, later in pairwise(seen)))
    return longest


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"a group has not settled within {_PATIENCE_S} s")
        time.sleep(0.01)


class _Member:
    """A consumer in a thread of its own, which notes when it saw a record of which partition."""

    def __init__(self, node: Node, topic: str, settings: Settings) -> None:
        self.seen: list[tuple[float, int | None]] = []
        self.owned: set[int] = set()
        self.assignments = 0
        self._topic = topic
        self._is_done = False
        given = {
            "bootstrap.servers": node.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
        if settings.get("group.protocol") != "consumer":
            given["heartbeat.interval.ms"] = _HEARTBEAT_MS
        self._consumer = Consumer(given | settings)
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def has_some(self) -> bool:
        return bool(self.owned)

    def stop(self) -> None:
        self._is_done = True
        self._thread.join()

    def _live(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        while not self._is_done:
            for message in self._consumer.consume(100, 0.02):
                if message.error() is None:
                    self.seen.append((time.monotonic(), message.partition()))
        self._consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments += 1
        self.owned |= {partition.partition for partition in partitions}

    def _revoked(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {partition.partition for partition in partitions}


class _Feeding:
    """Records to all partitions at a steady rate."""

    def __init__(self, node: Node, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0, "log_level": 0})
        self._topic = topic
        self._is_done = False
        self._thread = threading.Thread(target=self._feed)
        self._thread.start()

    def stop(self) -> None:
        self._is_done = True
        self._thread.join()

    def _feed(self) -> None:
        due = time.monotonic()
        while not self._is_done:
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, b"x", partition=partition)
            self._producer.poll(0)
            due += 1 / _RATE
            time.sleep(max(due - time.monotonic(), 0))
        self._producer.flush(10)
