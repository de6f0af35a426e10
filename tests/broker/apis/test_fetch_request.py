"""Fetch requests are read by hand: as kio reads them after the check of wire/structure.py, whatever the bytes are."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.apis.fetch_request import FetchRequest, read
from ottla.broker.apis.registry import ALL
from ottla.broker.fetch_sessions import Wanted
from ottla.wire.build import build, request_type
from ottla.wire.codec import MalformedRequest, decode_request, encode_body

(API,) = (api for api in ALL if api.name == "Fetch")
VERSIONS = range(API.oldest, API.newest + 1)
MUTATIONS = 400


def a_request(version: int, chance: random.Random) -> bytes:
    def topic(number: int) -> dict[str, Any]:
        return {"topic_id": UUID(int=chance.getrandbits(128))} if version >= 13 else {"topic": f"topic-{number}"}

    rows = {
        "partition": 3, "current_leader_epoch": chance.choice((-7, -1, 5)), "fetch_offset": chance.getrandbits(60),
        "last_fetched_epoch": chance.choice((-1, 4)), "log_start_offset": 17, "partition_max_bytes": 1 << 20,
        "replica_directory_id": UUID(int=chance.getrandbits(128)), "high_watermark": 12,
    }  # fmt: skip
    values = {
        "cluster_id": chance.choice((None, "cluster")), "replica_id": chance.choice((-1, 2)),
        "replica_state": {"replica_id": chance.choice((-1, 2)), "replica_epoch": 9},
        "max_wait": timedelta(milliseconds=chance.randrange(1000)), "min_bytes": 1, "max_bytes": 1 << 30,
        "isolation_level": 1, "session_id": chance.getrandbits(30), "session_epoch": 3,
        "topics": [topic(n) | {"partitions": [rows | {"partition": p} for p in range(chance.randrange(4))]}
                   for n in range(chance.randrange(3))],
        "forgotten_topics_data": [topic(9) | {"partitions": [1, 2]}] * chance.randrange(2),
        "rack_id": chance.choice(("", "räck")),
    }  # fmt: skip
    return encode_body(build(request_type(1, version), values))


def by_schema(version: int, body: bytes) -> FetchRequest:
    request = decode_request(1, version, body)

    def name(topic: Any) -> Any:
        return topic.topic_id.bytes if version >= 13 else topic.topic

    wanted = {
        (name(topic), row.partition): Wanted(
            row.fetch_offset,
            row.partition_max_bytes,
            max(row.current_leader_epoch, -1) if version >= 9 else -1,
            max(row.last_fetched_epoch, -1) if version >= 12 else -1,
            row.log_start_offset if version >= 5 else -1,
        )
        for topic in request.topics
        for row in topic.partitions
    }
    forgotten = request.forgotten_topics_data if version >= 7 else ()
    by_state = version >= 15
    return FetchRequest(
        request.replica_state.replica_id if by_state else request.replica_id,
        request.replica_state.replica_epoch if by_state else -1,
        request.max_wait // timedelta(milliseconds=1),
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id if version >= 7 else 0,
        request.session_epoch if version >= 7 else -1,
        wanted,
        [(name(topic), number) for topic in forgotten for number in topic.partitions],
        request.rack_id if version >= 11 else "",
    )


def outcome(reader: Any, version: int, body: bytes) -> FetchRequest | None:
    try:
        result: FetchRequest = reader(version, memoryview(body) if reader is read else body)
    except MalformedRequest:
        return None
    return result


def mutated(body: bytes, chance: random.Random) -> bytes:
    data = bytearray(body)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0 if at < len(data):
                data[at] = chance.randrange(256)
            case 1:
                data[at:at] = chance.randbytes(chance.randrange(1, 6))
            case 2:
                del data[at : at + chance.randrange(1, 6)]
            case _:
                data[at : at + 1] = chance.choice((b"\x00", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x08", b"\x7f"))
        data = data or bytearray(1)
    return bytes(data)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_of_each_version_says_what_it_says_by_the_schema(version: int) -> None:
    chance = random.Random(version)
    for _ in range(20):
        body = a_request(version, chance)

        assert outcome(read, version, body) == by_schema(version, body)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_quite_a_request_is_taken_or_refused_as_by_the_schema(version: int) -> None:
    chance = random.Random(1000 + version)
    taken = 0
    for _ in range(MUTATIONS):
        body = mutated(a_request(version, chance), chance)

        found = outcome(read, version, body)

        assert found == outcome(by_schema, version, body), body.hex()
        taken += found is not None
    assert 0 < taken < MUTATIONS  # there are some of each
