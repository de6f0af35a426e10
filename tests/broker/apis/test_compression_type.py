"""compression.type other than `producer`: batches are stored with the codec of their topic, in their order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.broker.apis.asking import PRODUCE, ask
from tests.waiting import PATIENCE_S

from ottla.model.errors import ErrorCode
from ottla.record.batch import Codec, TimestampType, computed_crc
from ottla.record.builder import build_batch
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import Record
from ottla.testing.node import RunningNode

T0 = 1_700_000_000_000
TARGETS = {"uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


def records(count: int, size: int = 20) -> list[Record]:
    headers = ((("h", b"1"), ("none", None)),)
    return [
        Record(b"key-%d" % number, b"%d " % number * size, T0 + number, headers[0], number) for number in range(count)
    ]


def produce(address: str, topic: str, batch: bytes, version: int = 9) -> Any:
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = ask(
        address, PRODUCE, version, acks=-1, timeout=timedelta(seconds=60), transactional_id=None, topic_data=topics
    )
    return answer.responses[0].partition_responses[0]


def stored(node: RunningNode, topic: str) -> list[bytes]:
    folder = Path(node.on_loop(lambda: node.node.replicas.by_name[topic, 0].log.folder))
    data = (folder / f"{0:020d}.log").read_bytes()
    batches = [bytes(batch) for _, batch in iterate_batches(data)]
    assert sum(map(len, batches)) == len(data)
    return batches


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(TARGETS))
def test_a_batch_is_stored_with_the_codec_of_its_topic(
    node: RunningNode, new_topic: Callable[..., str], target: str, source: Codec
) -> None:
    topic = new_topic(compression_type=target)
    small, large = build_batch(records(3), codec=source), build_batch(records(300), codec=source)

    for base, batch in ((0, small), (3, large)):
        told = produce(node.address, topic, batch)
        assert (told.error_code, told.base_offset) == (ErrorCode.none, base)

    for sent, kept in zip((small, large), stored(node, topic), strict=True):
        header = next(iter(iterate_batches(kept)))[0]
        assert header.codec == TARGETS[target]
        assert header.crc == computed_crc(kept)
        assert [record[:4] for record in read_records(kept)] == [record[:4] for record in read_records(sent)]
        if TARGETS[target] is source:
            assert kept[16:] == sent[16:], "what has the right codec stays as it is"


@pytest.mark.parametrize(
    ("codec", "config", "weak", "strong"),
    [
        ("gzip", "compression_gzip_level", "1", "9"),
        ("lz4", "compression_lz4_level", "1", "12"),
        ("zstd", "compression_zstd_level", "-50", "19"),
    ],
)
def test_the_level_makes_a_difference(
    node: RunningNode, new_topic: Callable[..., str], codec: str, config: str, weak: str, strong: str
) -> None:
    sizes = []
    text = b" ".join(b"%d" % (number * number % 7919) for number in range(20_000))
    batch = build_batch([Record(None, text, T0)])
    for level in (weak, strong):
        topic = new_topic(compression_type=codec, **{config: level})
        assert produce(node.address, topic, batch).error_code is ErrorCode.none
        sizes.append(len(stored(node, topic)[0]))
    assert sizes[1] < sizes[0] < len(batch)


def test_order_is_kept_although_some_take_longer(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic(compression_type="gzip")
    producer = Producer({"bootstrap.servers": node.address, "linger.ms": 0, "max.in.flight": 100})
    values = [b"%d" % number + b"." * (50_000 if number % 7 == 0 else 5) for number in range(200)]
    for value in values:
        producer.produce(topic, value, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = [message.value() for message in consumer.consume(len(values), timeout=PATIENCE_S)]
    consumer.close()
    assert found == values


def test_an_idempotent_batch_is_known_again(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic(compression_type="zstd")
    batch = build_batch(records(500), producer_id=5, producer_epoch=0, base_sequence=0)
    assert produce(node.address, topic, batch).base_offset == 0
    again = produce(node.address, topic, batch)
    assert (again.error_code, again.base_offset) == (ErrorCode.none, 0)
    gap = produce(node.address, topic, build_batch(records(3), producer_id=5, producer_epoch=0, base_sequence=700))
    assert gap.error_code is ErrorCode.out_of_order_sequence_number


def test_with_log_append_time(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic(compression_type="lz4", message_timestamp_type="LogAppendTime")
    told = produce(node.address, topic, build_batch(records(400)))
    assert told.log_append_time is not None
    (kept,) = stored(node, topic)
    header = next(iter(iterate_batches(kept)))[0]
    assert header.attributes >> 3 & 1 == TimestampType.LOG_APPEND_TIME
    assert header.crc == computed_crc(kept)
    assert {record.timestamp for record in read_records(kept)} == {header.max_timestamp}


def test_what_is_too_large_after_it_is_refused(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic(compression_type="uncompressed", max_message_bytes="5000")
    batch = build_batch([Record(None, bytes(50_000), T0)], codec=Codec.GZIP)
    assert len(batch) < 5000
    assert produce(node.address, topic, batch).error_code is ErrorCode.message_too_large
    assert stored(node, topic) == []


@pytest.mark.parametrize("size", [1, 2000])
def test_damaged_records_are_refused(node: RunningNode, new_topic: Callable[..., str], size: int) -> None:
    topic = new_topic(compression_type="gzip")
    batch = bytearray(build_batch(records(2, size)))
    batch[61] ^= 2  # the length of the first record
    batch[17:21] = computed_crc(batch).to_bytes(4, "big")
    assert produce(node.address, topic, bytes(batch)).error_code is ErrorCode.invalid_record


def test_a_worker_that_dies_costs_its_batch_and_no_more(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic(compression_type="gzip")

    def broken(*_: Any) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.set_exception(RuntimeError("the worker was killed"))
        return future

    executor = node.node.env.executor
    compute = executor.compute
    node.on_loop(lambda: setattr(executor, "compute", broken))
    try:
        assert produce(node.address, topic, build_batch(records(500))).error_code is ErrorCode.unknown_server_error
    finally:
        node.on_loop(lambda: setattr(executor, "compute", compute))
    assert produce(node.address, topic, build_batch(records(500))).base_offset == 0
