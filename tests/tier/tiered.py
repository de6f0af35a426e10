"""A topic in the remote tier of a real node, with segments of a batch or two, and those who write and read it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.broker.apis.asking import PRODUCE, ask
from tests.waiting import PATIENCE_S, until

from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.replica.partition import Partition
from ottla.testing.node import RunningNode, running_node

TOPIC = "orders"
PER_BATCH = 5
QUICK: dict[str, Any] = {
    "remote_log_storage_system_enable": True,
    "remote_log_manager_task_interval_ms": 50,
    "remote_log_manager_task_retry_backoff_ms": 20,
    "remote_log_manager_task_retry_backoff_max_ms": 50,
    "log_retention_check_interval_ms": 50,
    "log_initial_task_delay_ms": 20,
    "rlmm_config_remote_log_metadata_topic_num_partitions": 2,
}
TIERED = {
    "remote.storage.enable": "true",
    "local.retention.ms": "1",
    "retention.ms": "-1",
    "internal.segment.bytes": "1000",
    "file.delete.delay.ms": "0",
}


@contextmanager
def tiered_node(folder: Path, url: str | None = None, **settings: Any) -> Iterator[RunningNode]:
    store = {"rsm_config_url": url or f"file://{folder}/tier"}
    with running_node(folder / "data", **{**QUICK, **store, **settings}) as running:
        yield running


def create(address: str, topic: str = TOPIC, **configs: str) -> None:
    given = {**TIERED, **{name.replace("_", "."): value for name, value in configs.items()}}
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=given)]).values():
        future.result()


def produce(address: str, first: int, batches: int, topic: str = TOPIC, timestamp: int | None = None) -> int:
    """Batches of five records that say their numbers; gives the number after the last one."""
    for number in range(batches):
        start = first + number * PER_BATCH
        when = int(time.time() * 1000) if timestamp is None else timestamp + start
        records = [Record(None, b"%d" % (start + n) + b"." * 60, when + n) for n in range(PER_BATCH)]
        rows = [{"index": 0, "records": build_batch(records)}]
        topics = [{"name": topic, "partition_data": rows}]
        answer = ask(
            address, PRODUCE, 9, acks=-1, timeout=timedelta(seconds=60), transactional_id=None, topic_data=topics
        )
        row = answer.responses[0].partition_responses[0]
        assert row.error_code is ErrorCode.none, row
        assert row.base_offset == start
    return first + batches * PER_BATCH


def partition(running: RunningNode, topic: str = TOPIC) -> Partition:
    return running.node.replicas.by_name[topic, 0]


def until_local_from(running: RunningNode, offset: int, topic: str = TOPIC) -> None:
    """Until all below an offset is in the tier and no longer on the disk."""
    log = partition(running, topic).log
    until(lambda: log.local_start_offset >= offset, lambda: f"local from {log.local_start_offset}, not {offset}")


def consume(address: str, first: int, end: int, topic: str = TOPIC, **settings: Any) -> list[int]:
    """The numbers in the records from an offset on, up to another; each at its own offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            **settings,
        }
    )
    numbers: list[int] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        consumer.assign([TopicPartition(topic, 0, first)])
        position = first
        while position < end:
            assert time.monotonic() < deadline, f"{len(numbers)} records, up to offset {position}"
            message = consumer.poll(0.2)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    if (message.offset() or 0) >= end:  # what comes last may be the end of a transaction
                        break
                    continue
                raise AssertionError(error)
            value, offset = message.value(), message.offset()
            assert value is not None and offset is not None
            numbers.append(int(value.rstrip(b".")))
            position = offset + 1
    finally:
        consumer.close()
    return numbers
