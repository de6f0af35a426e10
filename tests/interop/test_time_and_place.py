"""Timestamps, and reading from a place or a time."""

from __future__ import annotations

import time

import pytest
from tests.interop.clients import CLIENTS, Client, Refused, Sent
from tests.interop.conftest import NewTopic

from ottla.testing.process import NodeProcess

INVALID_TIMESTAMP = 32
HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_the_clients_timestamp_is_kept(node: NodeProcess, new_topic: NewTopic, client: Client) -> None:
    topic = new_topic()
    base = now_ms() - 1000
    client.produce(node.address, topic, [Sent(None, b"x", timestamp=base + n * 7 % 50) for n in range(50)])
    for reader in CLIENTS:
        received = reader.consume(node.address, topic, 50)
        assert [r.timestamp for r in received] == [base + n * 7 % 50 for n in range(50)]
        assert not any(r.is_log_append_time for r in received)


def test_a_log_append_time_topic_has_the_nodes_time(node: NodeProcess, new_topic: NewTopic, client: Client) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    spans = []
    for codec in client.codecs:
        began = now_ms()
        client.produce(node.address, topic, [Sent(None, b"x" * 50, timestamp=1000 + n) for n in range(20)], codec=codec)
        spans += [(began, now_ms())] * 20
    for reader in (one for one in CLIENTS if set(client.codecs) <= set(one.codecs)):
        received = reader.consume(node.address, topic, len(spans))
        assert len(received) == len(spans), reader.name
        for (began, ended), record in zip(spans, received, strict=True):
            assert record.is_log_append_time and began <= record.timestamp <= ended, reader.name


def test_a_timestamp_too_far_in_the_future_is_refused(node: NodeProcess, new_topic: NewTopic, client: Client) -> None:
    topic = new_topic()
    with pytest.raises(Refused) as refused:
        client.produce(node.address, topic, [Sent(None, b"x", timestamp=now_ms() + 2 * HOUR_MS)])
    assert refused.value.code == INVALID_TIMESTAMP
    assert client.first_and_end(node.address, topic, 0) == (0, 0)


def test_a_timestamp_too_far_in_the_past_is_refused_where_the_topic_says_so(
    node: NodeProcess, new_topic: NewTopic, client: Client
) -> None:
    topic = new_topic(message_timestamp_before_max_ms=HOUR_MS)
    with pytest.raises(Refused) as refused:
        client.produce(node.address, topic, [Sent(None, b"x", timestamp=now_ms() - 2 * HOUR_MS)])
    assert refused.value.code == INVALID_TIMESTAMP
    assert client.first_and_end(node.address, topic, 0) == (0, 0)


def test_offsets_by_time_point_at_the_first_record_not_before_it(
    node: NodeProcess, new_topic: NewTopic, client: Client
) -> None:
    """Over several segments, in batches of many records, compressed and not."""
    topic = new_topic(internal_segment_bytes=20_000)
    base = now_ms() - 1_000_000
    for number, codec in enumerate(client.codecs * 2):
        batch = [
            Sent(None, b"%0100d" % n, timestamp=base + number * 10_000 + n * 10) for n in range(100)
        ]  # up to 990 ms, then a gap of 9 s
        client.produce(node.address, topic, batch, codec=codec)
    batches = len(client.codecs) * 2
    expected: dict[int, int | None] = {0: 0, base + 5_000: 100, base + batches * 10_000: None}
    for number in (0, 1, batches - 1):
        at = base + number * 10_000
        expected |= {at: number * 100, at + 500: number * 100 + 50, at + 501: number * 100 + 51}
    for reader in CLIENTS:
        assert reader.offsets_for_times(node.address, topic, list(expected)) == list(expected.values()), reader.name


def test_reading_from_beginning_end_and_any_offset(node: NodeProcess, new_topic: NewTopic, client: Client) -> None:
    topic = new_topic(internal_segment_bytes=10_000)
    for part in range(4):
        client.produce(node.address, topic, [Sent(None, b"%0200d" % (part * 100 + n)) for n in range(100)])
    assert client.first_and_end(node.address, topic, 0) == (0, 400)
    for offset in (0, 1, 99, 100, 101, 257, 399):
        received = client.consume(node.address, topic, min(3, 400 - offset), start={0: offset})
        assert [(r.offset, int(r.value or b"-1")) for r in received] == [
            (n, n) for n in range(offset, min(offset + 3, 400))
        ]


def test_an_offset_that_does_not_exist_is_reset_as_the_client_is_told(
    node: NodeProcess, new_topic: NewTopic, client: Client
) -> None:
    topic = new_topic()
    client.produce(node.address, topic, [Sent(None, b"%d" % n) for n in range(5)])
    if client.name == "confluent":  # its default is the end; the others are set to the beginning
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": node.address, "group.id": "x", "auto.offset.reset": "error",
             "enable.auto.commit": False}
        )  # fmt: skip
        consumer.assign([TopicPartition(topic, 0, 77)])
        message = consumer.poll(10)
        consumer.close()
        assert message is not None and (error := message.error()) is not None
        assert "out of range" in error.str().lower()
        return
    received = client.consume(node.address, topic, 5, start={0: 77})
    assert [r.offset for r in received] == [0, 1, 2, 3, 4]
