"""Commits and fetches offsets over a socket, in any version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.broker.apis import asking
from tests.broker.apis.asking import ask
from tests.waiting import attempts

from ottla.model.errors import ErrorCode

GROUP = 0
Named = str | UUID | None
Row = tuple[int, int, int, str]  # partition, offset, leader epoch, metadata


def await_coordinator(address: str, group: str = "group") -> None:
    """Until the topic is there and the group's partition of it is loaded."""
    for _ in attempts(f"the coordinator of {group} is there"):
        (found,) = ask(address, asking.FIND_COORDINATOR, 6, key_type=GROUP, coordinator_keys=[group]).coordinators
        if found.error_code is ErrorCode.none:
            (answer,) = fetch(address, group, None).groups
            if answer.error_code is ErrorCode.none:
                return


def commit(
    address: str, group: str, offsets: Mapping[Named, Mapping[int, int]], version: int = 9, *,
    metadata: str | None = "", epoch: int = -1, generation: int = -1, member: str = "", instance: str | None = None,
    retention_ms: int = -1,
) -> dict[Named, dict[int, ErrorCode]]:  # fmt: skip
    """The error for each partition."""
    topics = [
        {
            "name": named, "topic_id": named,
            "partitions": [
                {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": epoch,
                 "committed_metadata": metadata}
                for partition, offset in rows.items()
            ],
        }
        for named, rows in offsets.items()
    ]  # fmt: skip
    answer = ask(
        address, asking.OFFSET_COMMIT, version, group_id=group, generation_id_or_member_epoch=generation,
        member_id=member, group_instance_id=instance, retention_time=timedelta(milliseconds=retention_ms),
        topics=topics,
    )  # fmt: skip
    return {
        (topic.topic_id if version >= 10 else topic.name): {
            row.partition_index: row.error_code for row in topic.partitions
        }
        for topic in answer.topics
    }


def fetch(
    address: str, group: str, wanted: Mapping[Named, Sequence[int]] | None, version: int = 9, *, stable: bool = False
) -> Any:  # fmt: skip
    topics = None
    if wanted is not None:
        topics = [
            {"name": named, "topic_id": named, "partition_indexes": rows} for named, rows in wanted.items()
        ]  # fmt: skip
    asked = {"group_id": group, "topics": topics}
    return ask(address, asking.OFFSET_FETCH, version, **asked, groups=[asked], require_stable=stable)


def committed(
    address: str, group: str, wanted: Mapping[Named, Sequence[int]] | None = None, version: int = 9, *,
    stable: bool = False,
) -> dict[Named, list[Row]]:  # fmt: skip
    """What is committed; there must be no error."""
    answer = fetch(address, group, wanted, version, stable=stable)
    found = answer.groups[0] if version >= 8 else answer
    if version >= 2:
        assert found.error_code is ErrorCode.none
    assert {row.error_code for topic in found.topics for row in topic.partitions} <= {ErrorCode.none}
    return {
        (topic.topic_id if version >= 10 else topic.name): [
            (row.partition_index, row.committed_offset, getattr(row, "committed_leader_epoch", -1), row.metadata)
            for row in topic.partitions
        ]
        for topic in found.topics
    }


def delete(address: str, group: str, offsets: Mapping[str, Sequence[int]]) -> Any:
    topics = [
        {"name": name, "partitions": [{"partition_index": number} for number in rows]} for name, rows in offsets.items()
    ]
    return ask(address, asking.OFFSET_DELETE, 0, group_id=group, topics=topics)
