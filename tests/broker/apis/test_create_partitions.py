from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.broker.apis.asking import CREATE_PARTITIONS, ask, list_offset, metadata

from ottla.model.errors import ErrorCode

SOON = timedelta(seconds=60)


def create(
    address: str, *topics: tuple[str, int, list[list[int]] | None], version: int = 3, **values: Any
) -> list[tuple[str, ErrorCode, str | None]]:
    rows = [
        {"name": name, "count": count, "assignments": None if given is None else [{"broker_ids": ids} for ids in given]}
        for name, count, given in topics
    ]
    asked = {"timeout": SOON, "validate_only": False} | values
    answer = ask(address, CREATE_PARTITIONS, version, topics=rows, **asked)
    return [(row.name, row.error_code, row.error_message) for row in answer.results]


@pytest.mark.parametrize("version", range(4))
def test_new_partitions_are_served_when_the_answer_is_there(
    address: str, new_topic: Callable[..., str], version: int
) -> None:
    topic = new_topic()

    assert create(address, (topic, 3, None), version=version) == [(topic, ErrorCode.none, None)]

    (told,) = metadata(address, topic).topics
    assert [(row.partition_index, row.leader_id) for row in told.partitions] == [(0, 1), (1, 1), (2, 1)]
    assert {list_offset(address, topic, -1, partition=number).error_code for number in range(3)} == {ErrorCode.none}


def test_replicas_may_be_given(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert create(address, (topic, 2, [[1]])) == [(topic, ErrorCode.none, None)]
    ((_, code, message),) = create(address, (topic, 3, [[2]]))

    assert code is ErrorCode.invalid_replica_assignment
    assert "no such broker is registered" in (message or "")


def test_validate_only_adds_nothing(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert create(address, (topic, 3, None), validate_only=True) == [(topic, ErrorCode.none, None)]

    assert len(metadata(address, topic).topics[0].partitions) == 1


def test_topics_stand_or_fall_alone(address: str, new_topic: Callable[..., str]) -> None:
    grows, shrinks, stays, twice = new_topic(), new_topic(3), new_topic(2), new_topic()

    outcomes = create(
        address, (grows, 2, None), (shrinks, 2, None), (stays, 2, None), ("absent", 2, None), ("", 2, None),
        (twice, 2, None), (twice, 3, None),
    )  # fmt: skip

    assert {name: code for name, code, _ in outcomes} == {
        grows: ErrorCode.none,
        shrinks: ErrorCode.invalid_partitions,
        stays: ErrorCode.invalid_partitions,
        "absent": ErrorCode.unknown_topic_or_partition,
        "": ErrorCode.unknown_topic_or_partition,
        twice: ErrorCode.invalid_request,
    }
    assert len(metadata(address, grows).topics[0].partitions) == 2


def test_without_time_nothing_is_done(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert create(address, (topic, 3, None), timeout=timedelta(0)) == [(topic, ErrorCode.request_timed_out, None)]

    assert len(metadata(address, topic).topics[0].partitions) == 1
    assert create(address) == []
