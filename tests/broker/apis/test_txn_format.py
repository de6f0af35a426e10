"""What is read and written by hand of EndTxn and AddPartitionsToTxn is what the codec of all APIs makes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ottla.broker.apis import add_partitions_to_txn, end_txn
from ottla.broker.apis.txn_format import (
    Topic,
    in_order,
    read_additions,
    read_end,
    write_added,
    write_all_fine,
    write_ended,
)
from ottla.coordinator.txn.transaction import ProducerEpoch
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.wire.build import build, request_type, response_type
from ottla.wire.codec import encode_body, response_frame

ADD, END = 24, 26
PRODUCER = ProducerEpoch(2**40 + 1, 32766)
TOPICS = [Topic("örders", (3, 1, 3)), Topic("none", ()), Topic("bills", tuple(range(40)))]


def end(version: int, *, name: str = "clérk-1", commit: bool = True) -> bytes:
    producer_id, epoch = PRODUCER
    values = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch, "committed": commit}
    return encode_body(build(request_type(END, version), values))


def add(version: int, topics: list[Topic] | None = None, *, name: str = "clérk-1") -> bytes:
    values: dict[str, Any] = {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": PRODUCER.producer_id,
        "v3_and_below_producer_epoch": PRODUCER.epoch,
        "v3_and_below_topics": [
            {"name": topic.name, "partitions": list(topic.partitions)}
            for topic in (TOPICS if topics is None else topics)
        ],
    }
    return encode_body(build(request_type(ADD, version), values))


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_read(version: int, commit: bool) -> None:
    data = end(version, commit=commit)
    assert read_end(version, memoryview(data)) == ("clérk-1", PRODUCER, commit)


@pytest.mark.parametrize("version", range(4))
def test_additions_are_read(version: int) -> None:
    read = read_additions(version, memoryview(add(version)))
    assert read is not None
    assert (read.transactional_id, read.producer) == ("clérk-1", PRODUCER)
    assert list(read.topics) == TOPICS
    assert read.partitions[:3] == (
        TopicPartition("örders", 3),
        TopicPartition("örders", 1),
        TopicPartition("bills", 0),
    )


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (5, end(5)[:-1] + b"\x01\x00\x01x"),
        (5, end(5, name="n" * 200)),
        (5, end(5) + b"\x00"),
        (1, end(1) + b"\x00"),
        (1, end(1)[:-1] + b"\x02"),
        (1, b"\xff\xff" + end(1, name="")[2:]),
        (1, b"\x00\x01\xff" + end(1, name="")[2:]),
        (1, end(1, name="n" * 2000)),
    ],
    ids=["tag", "long", "more", "more of old", "odd outcome", "null", "no UTF-8", "very long"],
)
def test_an_unusual_end_is_left_to_the_codec(version: int, data: bytes) -> None:
    assert read_end(version, data) is None


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (3, add(3)[:-1] + b"\x01\x00\x01x"),
        (3, add(3, [Topic("t", range(130))])),
        (3, add(3, [Topic("t", (1,))])[:-2] + b"\x01\x00\x01x\x00"),
        (1, add(1) + b"\x00"),
        (1, add(1, [])[:-4] + b"\xff\xff\xff\xff"),
        (1, add(1, [])[:-4] + b"\x7f\xff\xff\xff"),
        (1, add(1, [Topic("t", range(300))])),
    ],
    ids=["tag", "many", "tag of a topic", "more", "null", "count of nothing", "large"],
)
def test_unusual_additions_are_left_to_the_codec(version: int, data: bytes) -> None:
    assert read_additions(version, data) is None


@pytest.mark.parametrize("version", range(6))
def test_one_that_is_cut_off_is_left_alone(version: int) -> None:
    data = end(version)
    assert [size for size in range(len(data)) if read_end(version, data[:size]) is not None] == []
    if version < 4:
        data = add(version)
        assert [size for size in range(len(data)) if read_additions(version, data[:size]) is not None] == []


def test_what_the_codec_reads_is_the_same_to_the_api() -> None:
    tagged = end(5)[:-1] + b"\x01\x00\x01x"
    assert end_txn.read(5, tagged) == end_txn.read(5, end(5))
    tagged = add(3)[:-1] + b"\x01\x00\x01x"
    by_codec, by_hand = add_partitions_to_txn.read(3, tagged), add_partitions_to_txn.read(3, add(3))
    assert by_codec == by_hand


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.producer_fenced])
def test_the_answer_to_an_end(version: int, code: ErrorCode) -> None:
    entity = build(
        response_type(END, version),
        {
            "throttle_time": timedelta(0),
            "error_code": code,
            "producer_id": PRODUCER.producer_id,
            "producer_epoch": PRODUCER.epoch,
        },
    )
    assert write_ended(version, 77, code, PRODUCER) == response_frame(77, entity)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.operation_not_attempted])
def test_the_answer_to_additions(version: int, code: ErrorCode) -> None:
    request = read_additions(version, add(version))
    assert request is not None
    told = in_order(TOPICS, dict.fromkeys(request.partitions, code))
    results = [
        {
            "name": name,
            "results_by_partition": [
                {"partition_index": number, "partition_error_code": each} for number, each in rows
            ],
        }
        for name, rows in told
    ]
    values = {"throttle_time": timedelta(0), "results_by_topic_v3_and_below": results}
    expected = response_frame(77, build(response_type(ADD, version), values))
    assert write_added(version, 77, told) == expected
    if code is ErrorCode.none:
        assert write_all_fine(77, request) == expected


def test_what_is_wrong_in_itself_stands_first() -> None:
    unknown, fine = ErrorCode.unknown_topic_or_partition, ErrorCode.operation_not_attempted
    codes = {TopicPartition("t", 9): unknown, TopicPartition("t", 0): fine, TopicPartition("t", 1): fine}
    assert in_order([Topic("t", (0, 9, 1, 9))], codes) == [("t", [(9, unknown), (9, unknown), (0, fine), (1, fine)])]
