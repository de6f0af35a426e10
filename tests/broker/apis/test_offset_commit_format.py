"""What is read by hand of OffsetCommit is what the decoder of all APIs reads; what is unusual is left to that one."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ottla.broker.apis.offset_commit_format import BY_ID, FLEXIBLE, from_entity, read_usual
from ottla.wire.build import build, request_type
from ottla.wire.codec import decode_request, encode_body

KEY = 8


def body(version: int, metadata: str | None = "", *, group: str = "billing", rows: int = 3) -> bytes:
    partitions = [
        {
            "partition_index": number,
            "committed_offset": 2**40 + number,
            "committed_leader_epoch": number - 1,
            "committed_metadata": metadata,
        }
        for number in range(rows)
    ]
    values: dict[str, Any] = {
        "group_id": group,
        "generation_id_or_member_epoch": 7,
        "member_id": "rdkafka-1",
        "group_instance_id": "one" if version % 2 else None,
        "topics": [
            {"name": "örders", "topic_id": UUID(int=5), "partitions": partitions},
            {"name": "empty", "topic_id": UUID(int=6), "partitions": []},
        ],
    }
    return encode_body(build(request_type(KEY, version), values))


@pytest.mark.parametrize("version", range(FLEXIBLE, BY_ID + 1))
@pytest.mark.parametrize("metadata", ["", None])
def test_the_usual_ones(version: int, metadata: str | None) -> None:
    data = body(version, metadata)
    read = read_usual(version, data)
    general = from_entity(version, decode_request(KEY, version, data))
    assert read is not None
    assert read._replace(topics=[]) == general._replace(topics=[])
    assert [(topic.named, [*topic.rows]) for topic in read.topics] == [
        (topic.named, [*topic.rows]) for topic in general.topics
    ]
    assert all(topic.metadata is None for topic in read.topics)
    assert all(not text for topic in general.topics for text in topic.metadata or ())


@pytest.mark.parametrize(
    "data",
    [body(9, "at 5"), body(9, group="g" * 200), body(9, rows=130), body(9)[:-1] + b"\x01\x00\x01x", b""],
    ids=["metadata", "a long group", "many rows", "a tagged field", "nothing"],
)
def test_the_others_are_left_alone(data: bytes) -> None:
    assert read_usual(9, data) is None


@pytest.mark.parametrize("version", range(FLEXIBLE, BY_ID + 1))
def test_one_that_is_cut_off_is_left_alone(version: int) -> None:
    data = body(version)
    assert [size for size in range(len(data)) if read_usual(version, data[:size]) is not None] == []
