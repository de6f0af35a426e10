from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.broker.apis.asking import LIST_OFFSETS, PRODUCE, ask, list_offset
from tests.waiting import PATIENCE_S

from ottla.env.disk import PosixFile
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition as Key
from ottla.record.batch import Codec
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import RunningNode

NOTHING = (-1, -1, -1)
T0 = 1_700_000_000_000


def produce(address: str, topic: str, timestamps: list[int], codec: Codec = Codec.NONE) -> None:
    """One batch with a record for each timestamp."""
    batch = build_batch([Record(None, b"value", timestamp) for timestamp in timestamps], codec=codec)
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = ask(address, PRODUCE, 9, acks=-1, timeout=timedelta(seconds=60), transactional_id=None, topic_data=topics)
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def found(row: Any) -> tuple[int, int, int]:
    assert row.error_code is ErrorCode.none, row
    return row.offset, row.timestamp, row.leader_epoch


def test_first_and_last_offset(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(address, topic, [T0, T0 + 1, T0 + 2])

    assert found(list_offset(address, topic, -2)) == (0, -1, 0)
    assert found(list_offset(address, topic, -1)) == (3, -1, 0)
    assert found(list_offset(address, topic, -1, isolation_level=1)) == (3, -1, 0)
    assert found(list_offset(address, topic, -4)) == (0, -1, 0)  # what is local is all there is
    assert found(list_offset(address, topic, -5)) == NOTHING  # and nothing is tiered
    assert found(list_offset(address, topic, -6)) == NOTHING


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_first_record_at_or_after_a_time(address: str, new_topic: Callable[..., str], codec: Codec) -> None:
    topic = new_topic()
    produce(address, topic, [T0, T0 + 5, T0 + 10], codec)
    produce(address, topic, [T0 + 30, T0 + 20, T0 + 40], codec)  # not in order

    asked = [T0 - 1000, T0, T0 + 1, T0 + 10, T0 + 11, T0 + 25, T0 + 40]
    assert [found(list_offset(address, topic, timestamp))[:2] for timestamp in asked] == [
        (0, T0), (0, T0), (1, T0 + 5), (2, T0 + 10), (3, T0 + 30), (3, T0 + 30), (5, T0 + 40),
    ]  # fmt: skip
    assert found(list_offset(address, topic, T0 + 41)) == NOTHING
    assert found(list_offset(address, topic, 1 << 62)) == NOTHING


def test_a_large_batch_is_searched_elsewhere(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(address, topic, [T0 + number for number in range(3000)])

    assert found(list_offset(address, topic, T0 + 2345)) == (2345, T0 + 2345, 0)


def test_what_is_not_in_memory_is_read_in_the_background(
    address: str, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(index_interval_bytes="0")
    for number in range(20):
        produce(address, topic, [T0 + number])
    warm: set[tuple[str, int]] = set()
    read_cold, read_warm = PosixFile.pread, PosixFile.pread_nowait

    def pread(file: PosixFile, size: int, position: int) -> bytes:
        warm.add((file.path, position))
        return read_cold(file, size, position)

    def pread_nowait(file: PosixFile, size: int, position: int) -> bytes | bytearray | None:
        return read_warm(file, size, position) if (file.path, position) in warm else None

    monkeypatch.setattr(PosixFile, "pread", pread)
    monkeypatch.setattr(PosixFile, "pread_nowait", pread_nowait)

    assert found(list_offset(address, topic, T0 + 13)) == (13, T0 + 13, 0)
    assert warm


def test_the_record_with_the_largest_time_is_the_first_of_them(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(address, topic, [T0, T0 + 90, T0 + 90])
    produce(address, topic, [T0 + 50])

    assert found(list_offset(address, topic, -3)) == (1, T0 + 90, 0)


def test_with_log_append_time_a_batch_is_found_by_when_it_came(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    produce(address, topic, [1, 2, 3])

    offset, timestamp, _ = found(list_offset(address, topic, -3))

    assert offset == 0
    assert timestamp > T0
    assert found(list_offset(address, topic, 4)) == (0, timestamp, 0)


def test_an_empty_partition_has_offsets_but_no_times(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert [found(list_offset(address, topic, asked)) for asked in (-1, -2, -3, 0)] == [
        (0, -1, 0), (0, -1, 0), NOTHING, NOTHING,
    ]  # fmt: skip


def test_a_record_below_the_start_of_the_log_is_not_found(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(node.address, topic, [T0, T0 + 1, T0 + 2])
    produce(node.address, topic, [T0])
    node.on_loop(lambda: node.node.replicas.by_name[topic, 0].log.advance_start(3))

    assert found(list_offset(node.address, topic, T0)) == (3, T0, 0)
    assert found(list_offset(node.address, topic, T0 + 1)) == NOTHING
    assert found(list_offset(node.address, topic, -2)) == (3, -1, 0)


def test_just_after_an_election_the_last_offset_is_not_known(node: RunningNode, new_topic: Callable[..., str]) -> None:
    """KIP-207: the high watermark has not reached the epoch's first offset yet."""
    topic = new_topic()
    produce(node.address, topic, [T0])
    partition = node.node.replicas.by_name[Key(topic, 0)]
    node.on_loop(lambda: setattr(partition, "_epoch_start_offset", 100))

    assert list_offset(node.address, topic, -1).error_code is ErrorCode.offset_not_available
    assert list_offset(node.address, topic, -1, version=4).error_code is ErrorCode.leader_not_available
    assert list_offset(node.address, topic, T0 + 1).error_code is ErrorCode.offset_not_available
    assert found(list_offset(node.address, topic, T0)) == (0, T0, 0)
    assert found(list_offset(node.address, topic, -2)) == (0, -1, 0)
    assert found(list_offset(node.address, topic, -1, replica_id=5)) == (1, -1, 0)  # followers read to the end


@pytest.mark.parametrize(("asked", "since"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_what_can_be_asked_for_depends_on_the_version(
    address: str, new_topic: Callable[..., str], asked: int, since: int
) -> None:
    topic = new_topic()

    assert list_offset(address, topic, asked, version=since).error_code is ErrorCode.none
    assert list_offset(address, topic, asked, version=since - 1).error_code is ErrorCode.unsupported_version
    assert list_offset(address, topic, -7).error_code is ErrorCode.unsupported_version


def test_errors_of_a_partition(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert list_offset(address, "absent", -1).error_code is ErrorCode.unknown_topic_or_partition
    assert list_offset(address, topic, -1, partition=7).error_code is ErrorCode.unknown_topic_or_partition
    assert list_offset(address, topic, -1, epoch=5).error_code is ErrorCode.unknown_leader_epoch
    assert list_offset(address, topic, -1, epoch=0).error_code is ErrorCode.none
    assert list_offset(address, topic, -1, isolation_level=5).error_code is ErrorCode.unknown_server_error


def test_a_partition_asked_for_twice_is_refused_once(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    rows = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}] * 2
    topics = [{"name": topic, "partitions": rows}] * 2

    answer = ask(
        address, LIST_OFFSETS, 11, replica_id=-1, isolation_level=0, topics=topics, timeout=timedelta(seconds=60)
    )

    (answered,) = answer.topics
    assert [row.error_code for row in answered.partitions] == [ErrorCode.invalid_request]


def test_librdkafka_seeks_by_time(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": address, "compression.type": "gzip", "linger.ms": 50})
    for number in range(100):
        producer.produce(topic, b"value", partition=0, timestamp=T0 + number)
    assert producer.flush(PATIENCE_S) == 0

    consumer = Consumer({"bootstrap.servers": address, "group.id": "by-time"})
    (place,) = consumer.offsets_for_times([TopicPartition(topic, 0, T0 + 42)], timeout=PATIENCE_S)
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
    consumer.close()

    assert (place.offset, low, high) == (42, 0, 100)
