"""A thousand members join one group at once; then one of them leaves."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Sequence
from typing import Any

import uvloop

from bench.members import ClassicMember, ConsumerMember, all_of, dial, find_coordinator
from bench.nodes import Node
from ottla.wire.client import Connection

MEMBERS = 1_000
PARTITIONS = 1_000
_HEARTBEAT_S = 1.0
_DIALS = 50  # at a time: a listener's queue is only so long


def classic(node: Node, number: int) -> dict[str, Any]:
    """Each has one of a thousand partitions; those that stay hear of the one that left by their next heartbeat."""
    return _watched(node, _classic(node.port, f"crowd-classic-{number}"))


def consumer(node: Node, number: int) -> dict[str, Any]:
    topic = f"crowd-{number}"
    node.create_topic(topic, PARTITIONS)
    try:
        return _watched(node, _consumer(node.port, f"crowd-consumer-{number}", topic))
    finally:
        node.delete_topic(topic)


def _watched(node: Node, crowd: Any) -> dict[str, Any]:
    node.loop_lag()
    cpu = node.cpu_seconds()
    figures: dict[str, Any] = uvloop.run(crowd(node))
    figures["node_cpu_seconds"] = round(node.cpu_seconds() - cpu, 3)
    if (lag := node.loop_lag()) is not None:
        figures["longest_stall_ms"] = lag["max"]
    return figures


async def _connections(port: int) -> list[Connection]:
    found: list[Connection] = []
    while len(found) < MEMBERS:
        found += await all_of(dial(port) for _ in range(_DIALS))
    return found


def _classic(port: int, group_id: str) -> Any:
    async def crowd(node: Node) -> dict[str, Any]:
        connections = await _connections(port)
        await find_coordinator(connections[0], [group_id])
        members = [ClassicMember(connection, group_id, _subscription(), _share()) for connection in connections]
        began = time.monotonic()
        await all_of(member.take_part() for member in members)
        joined = time.monotonic() - began
        memory = node.memory_mb()
        assert len({member.generation for member in members}) == 1
        staying = members[1:]
        beating = asyncio.gather(*(_stay(member, number) for number, member in enumerate(staying)))
        await asyncio.sleep(_HEARTBEAT_S)
        began = time.monotonic()
        await members[0].leave()
        await beating
        left = time.monotonic() - began
        await all_of(connection.close() for connection in connections)
        return {"joined": joined, "left": left, **memory}

    return crowd


async def _stay(member: ClassicMember, number: int) -> None:
    await asyncio.sleep(_HEARTBEAT_S * number / MEMBERS)  # heartbeats of many members are spread
    await member.beat_until_told(_HEARTBEAT_S)
    await member.take_part()


def _consumer(port: int, group_id: str, topic: str) -> Any:
    async def crowd(node: Node) -> dict[str, Any]:
        connections = await _connections(port)
        await find_coordinator(connections[0], [group_id])
        members = [ConsumerMember(connection, group_id, topic) for connection in connections]
        began = time.monotonic()
        living = [asyncio.ensure_future(member.live()) for member in members]
        await _settled(members, living)
        joined = time.monotonic() - began
        memory = node.memory_mb()
        living.pop(0).cancel()
        began = time.monotonic()
        await members[0].leave()
        await _settled(members[1:], living)
        left = time.monotonic() - began
        for life in living:
            life.cancel()
        await asyncio.gather(*living, return_exceptions=True)
        await all_of(connection.close() for connection in connections)
        return {"joined": joined, "left": left, **memory}

    return crowd


async def _settled(members: list[ConsumerMember], living: Sequence[asyncio.Future[None]]) -> None:
    """Until every partition is owned, everyone has one, and all are at the same epoch.

    The first to come has all of them for a while, and the others are level with it: that is not the end yet.
    """

    def are_settled() -> bool:
        shares = [member.partitions for member in members]
        return sum(shares) == PARTITIONS and min(shares) > 0 and len({member.epoch for member in members}) == 1

    async with asyncio.timeout(120):
        while not are_settled():
            for life in living:
                if life.done():
                    life.result()
            await asyncio.sleep(0.005)


def _subscription() -> bytes:
    """Version 0: one topic."""
    return struct.pack(">hih", 0, 1, 5) + b"crowd" + struct.pack(">i", -1)


def _share() -> bytes:
    """Version 0: one partition of one topic."""
    return struct.pack(">hih", 0, 1, 5) + b"crowd" + struct.pack(">iii", 1, 0, -1)
