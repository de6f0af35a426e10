from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.broker.apis.asking import DELETE_RECORDS, PRODUCE, ask, list_offset
from tests.waiting import PATIENCE_S

from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import RunningNode


def produce(address: str, topic: str, count: int) -> None:
    batch = build_batch([Record(b"key", b"value", 1_700_000_000_000)] * count)
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = ask(address, PRODUCE, 9, acks=-1, timeout=timedelta(seconds=60), transactional_id=None, topic_data=topics)
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none


def delete(address: str, topic: str, offset: int, *, partition: int = 0, version: int = 2) -> Any:
    rows = [{"partition_index": partition, "offset": offset}]
    topics = [{"name": topic, "partitions": rows}]
    (answered,) = ask(address, DELETE_RECORDS, version, topics=topics, timeout=timedelta(seconds=60)).topics
    assert answered.name == topic
    (row,) = answered.partitions
    assert row.partition_index == partition
    return row.error_code, row.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_the_log_begins_where_it_was_told_to(address: str, new_topic: Callable[..., str], version: int) -> None:
    topic = new_topic()
    produce(address, topic, 10)

    assert delete(address, topic, 4, version=version) == (ErrorCode.none, 4)
    assert list_offset(address, topic, -2).offset == 4
    assert delete(address, topic, 2, version=version) == (ErrorCode.none, 4), "it never goes back"
    assert delete(address, topic, -1, version=version) == (ErrorCode.none, 10), "up to the high watermark"
    assert list_offset(address, topic, -2).offset == list_offset(address, topic, -1).offset == 10
    produce(address, topic, 1)
    assert list_offset(address, topic, -1).offset == 11


def test_errors(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(address, topic, 3)

    assert delete(address, topic, 4) == (ErrorCode.offset_out_of_range, -1)
    assert delete(address, topic, -2) == (ErrorCode.offset_out_of_range, -1)
    assert delete(address, topic, 0, partition=7) == (ErrorCode.unknown_topic_or_partition, -1)
    assert delete(address, "absent", 0) == (ErrorCode.unknown_topic_or_partition, -1)
    compacted = new_topic(cleanup_policy="compact")
    produce(address, compacted, 3)
    assert delete(address, compacted, 1) == (ErrorCode.policy_violation, -1)
    both = new_topic(cleanup_policy="compact,delete")
    produce(address, both, 3)
    assert delete(address, both, 1) == (ErrorCode.none, 1)


def test_of_a_partition_that_is_named_twice_the_last_counts(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(address, topic, 5)
    rows = [{"partition_index": 0, "offset": 5}, {"partition_index": 0, "offset": 1}]

    answer = ask(
        address, DELETE_RECORDS, 2, topics=[{"name": topic, "partitions": rows}], timeout=timedelta(seconds=60)
    )

    assert [row.low_watermark for row in answer.topics[0].partitions] == [1]


def test_whole_segments_go_from_the_disk(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic(internal_segment_bytes="200", file_delete_delay_ms="0")
    for _ in range(6):
        produce(node.address, topic, 2)
    folder = Path(node.on_loop(lambda: node.node.replicas.by_name[topic, 0].log.folder))
    before = len(list(folder.glob("*.log")))
    assert before >= 3

    assert delete(node.address, topic, 11) == (ErrorCode.none, 11)
    node.wait_for(node.node.logs.enforce_retention())

    assert len(list(folder.glob("*.log"))) == 1


def test_librdkafka_deletes_records(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(address, topic, 8)
    admin = AdminClient({"bootstrap.servers": address})

    (future,) = admin.delete_records([TopicPartition(topic, 0, 5)]).values()

    assert future.result(PATIENCE_S).low_watermark == 5
