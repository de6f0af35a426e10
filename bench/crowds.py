"""Many clients at once: connections that only stand there, readers that do not read."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench import load
from bench.nodes import Node

FEW, MANY, BUSY = 10, 2_000, 100
SLOW_READERS = 200
_RECORDS = 60_000
_BATCHED_RATE = 200_000  # of 1 KB each
_FETCH_BYTES = 50 << 20
_DEADLINE = 240


def many_connections(node: Node, number: int) -> dict[str, Any]:
    """One record a request on 10 connections, then on 100 while 1,900 others are open."""
    topic = f"crowd-{number}"
    node.create_topic(topic, 4)
    few = _single(node, topic, FEW)
    with _connections(node, MANY - BUSY, _api_versions()):
        many = _single(node, topic, BUSY)
        memory = node.memory_mb()
    node.delete_topic(topic)
    return {"few": few["rate"], "many": many["rate"], "share": many["rate"] / few["rate"], **memory}


def slow_readers(node: Node, number: int) -> dict[str, Any]:
    """Produce at 200 MB/s alone, then while 200 consumers have asked for much and read nothing."""
    topic, read = f"slow-{number}", f"slow-read-{number}"
    node.create_topic(topic, 4)
    node.create_topic(read, 1)
    load.run("batched", node.bootstrap, topic=read, partitions=1, size=1000, records=100_000, deadline=_DEADLINE)
    alone = _batched(node, topic)
    with _connections(node, SLOW_READERS, _fetch(read) * 2):
        beside = _batched(node, topic)
        memory = node.memory_mb()
    node.delete_topic(topic)
    node.delete_topic(read)
    os.sync()
    mb = "mb_per_second"
    return {"alone": alone[mb], "beside": beside[mb], "share": beside[mb] / alone[mb], **memory}


def _single(node: Node, topic: str, connections: int) -> dict[str, Any]:
    return load.run(
        *("single", node.bootstrap),
        topic=topic,
        partitions=4,
        size=100,
        records=_RECORDS,
        connections=connections,
        deadline=_DEADLINE,
    )


def _batched(node: Node, topic: str) -> dict[str, Any]:
    return load.run(
        *("batched", node.bootstrap),
        topic=topic,
        partitions=4,
        size=1000,
        records=5 * _BATCHED_RATE,
        rate=_BATCHED_RATE,
        deadline=_DEADLINE,
    )


@contextmanager
def _connections(node: Node, count: int, question: bytes) -> Iterator[None]:
    """Open connections, each of which has asked something and does not read the answer."""
    sockets = []
    try:
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", node.port), timeout=30)
            sockets.append(sock)
            sock.sendall(question)
        for sock in sockets:
            sock.recv(1, socket.MSG_PEEK)  # until each has been taken note of
        yield
    finally:
        for sock in sockets:
            sock.close()


def _request(key: int, version: int, body: bytes) -> bytes:
    frame = struct.pack(">hhih", key, version, 1, -1) + body
    return struct.pack(">i", len(frame)) + frame


def _api_versions() -> bytes:
    return _request(18, 0, b"")


def _fetch(topic: str) -> bytes:
    """Version 4, from the beginning of partition 0."""
    name = topic.encode()
    head = struct.pack(">iiiib", -1, 500, 1, _FETCH_BYTES, 0)
    one = struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, _FETCH_BYTES)
    return _request(1, 4, head + one)
