"""A node that is restarted, cleanly and by kill -9, while clients write and read: they reconnect and miss nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.interop.clients import Confluent
from tests.interop.conftest import create_topic
from tests.waiting import PATIENCE_S

from ottla.testing.process import NodeProcess, running_process

RESTARTS: tuple[Callable[[NodeProcess], None], ...] = (NodeProcess.stop, NodeProcess.kill)
RATE = 600
AFTER_EACH_S = 0.7
WITHIN_S = PATIENCE_S


@pytest.fixture
def own_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_process(tmp_path_factory.mktemp("restarts")) as node:
        yield node
        assert "Traceback" not in node.log(), node.log()[-4000:]


class Story:
    """Numbers that were sent, acknowledged (with their offsets) and read."""

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged: dict[int, int] = {}
        self.read: list[tuple[int, int]] = []  # offset and number
        self.stop = threading.Event()

    def next_numbers(self, began: float) -> range:
        """What is due by now."""
        due = range(self.sent, int((time.monotonic() - began) * RATE))
        self.sent = max(self.sent, due.stop)
        return due

    @property
    def is_complete(self) -> bool:
        return self.stop.is_set() and len(self.acknowledged) == self.sent and self.has_read_all

    @property
    def has_read_all(self) -> bool:
        return bool(self.acknowledged) and len(self.read) > max(self.acknowledged.values())

    def check(self, *, once: bool) -> None:
        assert self.sent > 500
        assert sorted(self.acknowledged) == list(range(self.sent)), "not all records were acknowledged"
        assert [offset for offset, _ in self.read] == list(range(len(self.read))), "offsets were skipped or read twice"
        by_offset = dict(self.read)
        lost = {number: offset for number, offset in self.acknowledged.items() if by_offset.get(offset) != number}
        assert not lost, f"acknowledged and lost: {list(lost.items())[:5]}"
        numbers = [number for _, number in self.read]
        if once:
            assert numbers == list(range(self.sent))
        else:
            assert set(numbers) == set(range(self.sent))


def disturb(node: NodeProcess, story: Story) -> None:
    for end in RESTARTS:
        time.sleep(AFTER_EACH_S)
        end(node)
        node.start()
    time.sleep(AFTER_EACH_S)
    story.stop.set()


def run(node: NodeProcess, story: Story, *works: Callable[[], None]) -> None:
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    try:
        disturb(node, story)
    finally:
        story.stop.set()
        for thread in threads:
            thread.join(WITHIN_S)
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads), f"still busy after {WITHIN_S} s"


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_confluent_goes_on_over_restarts(own_node: NodeProcess, idempotent: bool) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    create_topic(own_node.address, "numbers", 1)
    story = Story()
    fast = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 2}

    def write() -> None:
        producer = Producer(
            {
                "bootstrap.servers": own_node.address, "acks": "all", "enable.idempotence": idempotent, "linger.ms": 1,
                "batch.num.messages": 20, "retry.backoff.ms": 50,
            } | fast
        )  # fmt: skip

        def told(error: Any, message: Any) -> None:
            assert error is None, error
            story.acknowledged[int(message.value())] = message.offset()

        began = time.monotonic()
        while not story.stop.is_set():
            for number in story.next_numbers(began):
                producer.produce("numbers", b"%d" % number, on_delivery=told)
            producer.poll(0.005)
        assert producer.flush(WITHIN_S) == 0

    def read() -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": own_node.address, "group.id": "x", "enable.auto.commit": False,
                "fetch.wait.max.ms": 100, "auto.offset.reset": "error",
            } | fast
        )  # fmt: skip
        consumer.assign([TopicPartition("numbers", 0, 0)])
        deadline = time.monotonic() + WITHIN_S
        while not story.is_complete and time.monotonic() < deadline:
            for message in consumer.consume(500, 0.1):
                offset, value = message.offset(), message.value()
                if message.error() is None and offset is not None and value is not None:
                    story.read.append((offset, int(value)))
        consumer.close()

    run(own_node, story, write, read)
    story.check(once=idempotent)


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_kafka_python_goes_on_over_restarts(own_node: NodeProcess, idempotent: bool) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    create_topic(own_node.address, "numbers", 1)
    story = Story()
    fast = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200, "retry_backoff_ms": 50}

    def write() -> None:
        producer = KafkaProducer(
            bootstrap_servers=own_node.address, enable_idempotence=idempotent, linger_ms=1, batch_size=2000,
            request_timeout_ms=5000, delivery_timeout_ms=int(WITHIN_S * 1000), **fast,
        )  # fmt: skip
        began = time.monotonic()
        futures = []
        while not story.stop.is_set():
            futures += [(number, producer.send("numbers", b"%d" % number)) for number in story.next_numbers(began)]
            time.sleep(0.005)
        producer.flush(WITHIN_S)
        for number, future in futures:
            story.acknowledged[number] = future.get(WITHIN_S).offset
        producer.close(5)

    def read() -> None:
        consumer = KafkaConsumer(bootstrap_servers=own_node.address, group_id=None, fetch_max_wait_ms=100, **fast)
        consumer.assign([TopicPartition("numbers", 0)])
        consumer.seek(TopicPartition("numbers", 0), 0)
        deadline = time.monotonic() + WITHIN_S
        while not story.is_complete and time.monotonic() < deadline:
            for messages in consumer.poll(100).values():
                story.read += [(message.offset, int(message.value)) for message in messages]
        consumer.close()

    run(own_node, story, write, read)
    story.check(once=idempotent)


@pytest.mark.parametrize("idempotent", [True, False], ids=["idempotent", "plain"])
def test_aiokafka_goes_on_over_restarts(own_node: NodeProcess, idempotent: bool) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    create_topic(own_node.address, "numbers", 1)
    story = Story()
    options = {"bootstrap_servers": own_node.address, "retry_backoff_ms": 50}

    async def write() -> None:
        async with AIOKafkaProducer(
            enable_idempotence=idempotent, acks="all", max_batch_size=2000, request_timeout_ms=10000, **options
        ) as producer:
            began = time.monotonic()
            futures = []
            while not story.stop.is_set():
                for number in story.next_numbers(began):
                    futures.append((number, await producer.send("numbers", b"%d" % number)))
                await asyncio.sleep(0.005)
            for number, future in futures:
                story.acknowledged[number] = (await future).offset

    async def read() -> None:
        async with AIOKafkaConsumer(fetch_max_wait_ms=100, **options) as consumer:
            consumer.assign([TopicPartition("numbers", 0)])
            consumer.seek(TopicPartition("numbers", 0), 0)
            deadline = time.monotonic() + WITHIN_S
            while not story.is_complete and time.monotonic() < deadline:
                for messages in (await consumer.getmany(timeout_ms=100)).values():
                    story.read += [(message.offset, int(message.value)) for message in messages]

    run(own_node, story, lambda: asyncio.run(write()), lambda: asyncio.run(read()))
    story.check(once=idempotent)


def test_topics_configs_and_records_are_there_after_a_restart_of_either_kind(own_node: NodeProcess) -> None:
    from confluent_kafka.admin import AdminClient
    from tests.interop.clients import Sent

    create_topic(own_node.address, "kept", 3, max_message_bytes=5000)
    places = Confluent().produce(own_node.address, "kept", [Sent(b"%d" % n, b"value") for n in range(30)])
    for end in RESTARTS:
        end(own_node)
        own_node.start()
        topics = AdminClient({"bootstrap.servers": own_node.address}).list_topics(timeout=WITHIN_S).topics
        assert set(topics["kept"].partitions) == {0, 1, 2}
        received = Confluent().consume(own_node.address, "kept", 30)
        assert sorted((r.partition, r.offset) for r in received) == sorted(places)
        assert set(topics) - {"__consumer_offsets"} == {"kept"}
