"""Answers to OffsetFetch are what the encoder of all APIs would have written, in every version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.apis.offset_fetch_format import MANY_GROUPS, Group, Topic, errors_of, write_answer
from ottla.broker.apis.registry import ALL
from ottla.coordinator.group.offsets import Fetched
from ottla.model.errors import ErrorCode
from ottla.wire.build import build, response_type
from ottla.wire.codec import response_frame

UNSTABLE = ErrorCode.unstable_offset_commit
GROUPS = [
    Group(
        "billing",
        ErrorCode.none,
        [
            Topic("orders", UUID(int=7), [Fetched(0, 2**40, 3, ""), Fetched(1, 5, -1, "déjà vu " * 40)]),
            Topic("t" * 200, UUID(int=8), [Fetched(number, number) for number in range(200)]),
            Topic("gone", None, [Fetched(0, code=UNSTABLE)]),
        ],
    ),
    Group("g" * 130, ErrorCode.coordinator_load_in_progress, []),
]

(API,) = (api for api in ALL if api.name == "OffsetFetch")


@pytest.mark.parametrize("version", range(API.oldest, API.newest + 1))
@pytest.mark.parametrize("first", [0, 1])
def test_it_is_what_the_general_encoder_writes(version: int, first: int) -> None:
    groups = GROUPS[first:]
    values = [_values(group) for group in groups]
    given: dict[str, Any] = {"groups": values} if version >= MANY_GROUPS else values[0]
    expected = build(response_type(API.key, version), {"throttle_time": timedelta(0), **given})
    assert write_answer(version, 77, groups) == response_frame(77, expected)


def test_errors_are_counted_where_they_are_told() -> None:
    assert errors_of(9, GROUPS) == [ErrorCode.coordinator_load_in_progress, UNSTABLE]
    assert errors_of(1, GROUPS[1:]) == []


def _values(group: Group) -> dict[str, Any]:
    topics = [
        {
            "name": topic.name,
            "topic_id": topic.id,
            "partitions": [
                {
                    "partition_index": row.partition,
                    "committed_offset": row.offset,
                    "committed_leader_epoch": row.leader_epoch,
                    "metadata": row.metadata,
                    "error_code": row.code,
                }
                for row in topic.rows
            ],
        }
        for topic in group.topics
    ]
    return {"group_id": group.id, "error_code": group.code, "topics": topics}
