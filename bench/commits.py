"""Committed offsets: how many a second, and how fast they are there again after a restart."""

from __future__ import annotations

import asyncio
import struct
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvloop

from bench import load
from bench.members import ClassicMember, ask, dial, find_coordinator
from bench.nodes import Node
from ottla.model.errors import ErrorCode
from ottla.testing import apache_kafka
from ottla.wire import codec
from ottla.wire.build import build, request_type, response_type
from ottla.wire.client import Connection

CONNECTIONS = 10
GROUPS, PARTITIONS, ROUNDS = 100, 4, 600
MANY_GROUPS, OFFSETS = 5_000, 20
OFFSET_COMMIT, OFFSET_FETCH = (8, 9), (9, 9)
_ASKED_AT_ONCE = 100
_PATIENCE_S = 120

Exchange = tuple[bytes, bytes]


def commit(node: Node, number: int) -> dict[str, Any]:
    """Members of 100 groups commit four partitions each, ten of them over one connection, one at a time."""
    topic = f"commits-{number}"
    node.create_topic(topic, PARTITIONS)
    group_ids = [f"commits-{number}-{group}" for group in range(GROUPS)]
    exchanges = uvloop.run(_memberships(node.port, group_ids, topic))
    node.loop_lag()
    before = node.cpu_seconds()
    figures = _replay(node, exchanges, ROUNDS)
    cpu = node.cpu_seconds() - before
    figures["node_cpu_seconds"] = round(cpu, 3)
    figures["node_cpu_seconds_per_million"] = round(cpu / figures["requests"] * 1e6, 2)
    if (lag := node.loop_lag()) is not None:
        figures["longest_stall_ms"] = lag["max"]
    node.delete_topic(topic)
    return figures


def load_after_restart(node: Node, number: int) -> dict[str, Any]:
    """From the start of the process, and from the first open port, until every group's offsets are there."""
    topic = f"loaded-{number}"
    node.create_topic(topic, OFFSETS)
    group_ids = [f"loaded-{number}-{group}" for group in range(MANY_GROUPS)]
    exchanges = [_exchange(group_id, topic, OFFSETS) for group_id in group_ids]
    uvloop.run(_find_all(node.port, group_ids))
    _replay(node, exchanges, 1)
    node.stop()
    node.forget_clients()
    began = node.start(wait=False)
    while not apache_kafka.listening(node.port):
        time.sleep(0.005)
    listening = time.monotonic()
    uvloop.run(_all_loaded(node.port, group_ids))
    loaded = time.monotonic()
    node.delete_topic(topic)
    return {"seconds": loaded - began, "listening": loaded - listening}


def _exchange(group_id: str, topic: str, partitions: int, member: ClassicMember | None = None) -> Exchange:
    """A commit, with the answer if all is well."""
    rows = [
        {"partition_index": partition, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": ""}
        for partition in range(partitions)
    ]
    request = {
        "group_id": group_id,
        "generation_id_or_member_epoch": member.generation if member else -1,
        "member_id": member.id if member else "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": rows}],
    }
    fine = [{"partition_index": partition, "error_code": ErrorCode.none} for partition in range(partitions)]
    answer = {"throttle_time": timedelta(0), "topics": [{"name": topic, "partitions": fine}]}
    head = codec.request_header(*OFFSET_COMMIT, 0, "bench")
    return (
        head + codec.encode_body(build(request_type(*OFFSET_COMMIT), request)),
        struct.pack(">ib", 0, 0) + codec.encode_body(build(response_type(*OFFSET_COMMIT), answer)),
    )


def _replay(node: Node, exchanges: list[Exchange], rounds: int) -> dict[str, Any]:
    """Spread over the connections."""
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as folder:
        file = Path(folder) / "exchanges"
        with file.open("wb") as out:
            out.write(struct.pack(">i", CONNECTIONS))
            for number in range(CONNECTIONS):
                mine = exchanges[number::CONNECTIONS]
                out.write(struct.pack(">i", len(mine)))
                for frame in (frame for exchange in mine for frame in exchange):
                    out.write(struct.pack(">i", len(frame)) + frame)
        return load.replay(port=node.port, file=str(file), rounds=rounds)


async def _memberships(port: int, group_ids: list[str], topic: str) -> list[Exchange]:
    """A member in each group: to the broker it is alive for as long as its session lasts."""
    connections = [await dial(port) for _ in group_ids]
    await find_coordinator(connections[0], group_ids)
    pairs = zip(connections, group_ids, strict=True)
    members = [ClassicMember(connection, group_id, b"", b"") for connection, group_id in pairs]
    await asyncio.gather(*(member.take_part() for member in members))
    await asyncio.gather(*(connection.close() for connection in connections))
    found = zip(group_ids, members, strict=True)
    return [_exchange(group_id, topic, PARTITIONS, member) for group_id, member in found]


async def _find_all(port: int, group_ids: list[str]) -> None:
    async with await dial(port) as connection:
        await find_coordinator(connection, group_ids)


async def _all_loaded(port: int, group_ids: list[str]) -> None:
    async with asyncio.timeout(_PATIENCE_S), await dial(port) as connection:
        left = list(group_ids)
        while left:
            asked, left = left[:_ASKED_AT_ONCE], left[_ASKED_AT_ONCE:]
            missing = await _missing(connection, asked)
            if missing:
                left += missing
                await asyncio.sleep(0.005)


async def _missing(connection: Connection, group_ids: list[str]) -> list[str]:
    """Those whose offsets cannot be told yet."""
    asked = [
        {"group_id": group_id, "member_id": None, "member_epoch": -1, "topics": None, "require_stable": False}
        for group_id in group_ids
    ]
    answer = await ask(connection, OFFSET_FETCH, groups=asked, require_stable=False)
    missing = []
    for group in answer.groups:
        if group.error_code is not ErrorCode.none:
            missing.append(group.group_id)
        elif sum(len(topic.partitions) for topic in group.topics) != OFFSETS:
            raise RuntimeError(f"offsets of {group.group_id} are lost: {group}")
    return missing
