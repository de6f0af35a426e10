"""Answers to Metadata are what the encoder of all APIs would have written, in every version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.apis.metadata_format import Answer, Row, Topic, errors_of, write_answer
from ottla.broker.apis.registry import ALL
from ottla.broker.brokers import BrokerAddress
from ottla.model.errors import ErrorCode
from ottla.wire.build import build, response_type
from ottla.wire.codec import response_frame, response_header

(API,) = (api for api in ALL if api.name == "Metadata")
NONE = ErrorCode.none
BROKERS = [BrokerAddress(1, "a.example", 9092, None, False), BrokerAddress(2**31 - 1, "h" * 200, 65535, "rack", True)]
ROWS = [
    Row(NONE, 0, 1, 7, (1, 2, 3), (1,), (2, 3)),
    Row(ErrorCode.leader_not_available, 1, -1, 2**31 - 1, (), (), ()),
    *(Row(NONE, number, 1, number, tuple(range(130)), (1,), ()) for number in range(2, 200)),
]
TOPICS = [
    Topic(NONE, "orders", UUID(int=7), False, ROWS),
    Topic(NONE, "__consumer_offsets", UUID(int=8), True, ROWS[:1], operations=3400),
    Topic(ErrorCode.unknown_topic_or_partition, "déjà" * 40, None, False, ()),
]
NAMELESS = Topic(ErrorCode.unknown_topic_id, None, UUID(int=9), False, ())
ANSWERS = [
    Answer(BROKERS, "an-id", 1, TOPICS, operations=264),
    Answer([], None, -1, [], code=ErrorCode.invalid_request),
    Answer(BROKERS[:1], "", 1, [*TOPICS, NAMELESS]),
]


@pytest.mark.parametrize("version", range(API.oldest, API.newest + 1))
@pytest.mark.parametrize("answer", ANSWERS, ids=["full", "refused", "by id"])
def test_it_is_what_the_general_encoder_writes(version: int, answer: Answer) -> None:
    if version < 12:
        answer = answer._replace(topics=[topic for topic in answer.topics if topic.name is not None])
    body = response_header(API.key, version, 77) + write_answer(version, answer)
    values = _values(version, answer)
    assert body == response_frame(77, build(response_type(API.key, version), values))[4:]


def test_errors_are_counted_where_they_are_told() -> None:
    codes = [ErrorCode.leader_not_available, ErrorCode.unknown_topic_or_partition]
    assert list(errors_of(12, ANSWERS[0])) == codes
    assert list(errors_of(12, ANSWERS[1])) == []
    assert list(errors_of(13, ANSWERS[1])) == [ErrorCode.invalid_request]


def _values(version: int, answer: Answer) -> dict[str, Any]:
    operations = {"cluster_authorized_operations": answer.operations} if 8 <= version <= 10 else {}
    return {
        "throttle_time": timedelta(0),
        "brokers": [{"node_id": b.id, "host": b.host, "port": b.port, "rack": b.rack} for b in answer.brokers],
        "cluster_id": answer.cluster_id,
        "controller_id": answer.controller_id,
        "topics": [_topic(topic) for topic in answer.topics],
        "error_code": answer.code,
        **operations,
    }


def _topic(topic: Topic) -> dict[str, Any]:
    return {
        "error_code": topic.code,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": topic.is_internal,
        "topic_authorized_operations": topic.operations,
        "partitions": [
            {
                "error_code": row.code,
                "partition_index": row.partition,
                "leader_id": row.leader,
                "leader_epoch": row.leader_epoch,
                "replica_nodes": row.replicas,
                "isr_nodes": row.isr,
                "offline_replicas": row.offline,
            }
            for row in topic.rows
        ],
    }
