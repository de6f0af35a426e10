"""Long polls: a record is handed on the moment it comes, and those who wait cost nothing."""

from __future__ import annotations

import time
from statistics import median

import psutil
import pytest
from tests.interop.conftest import NewTopic
from tests.interop.raw import FETCH, PRODUCE, Raw, fetch_values, frame, produce_values
from tests.waiting import PATIENCE_S, at_best, until

from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.process import NodeProcess, running_process


def test_a_waiting_consumer_gets_a_record_at_once(node: NodeProcess, new_topic: NewTopic) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    topic = new_topic()
    consumer = Consumer(
        {"bootstrap.servers": node.address, "group.id": "x", "fetch.wait.max.ms": 20_000, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = Producer({"bootstrap.servers": node.address, "linger.ms": 0})
    producer.produce(topic, b"warm-up")
    producer.flush(PATIENCE_S)
    first = consumer.poll(PATIENCE_S)
    assert first is not None and first.value() == b"warm-up"
    latencies = []
    for _ in range(10):
        assert consumer.poll(0.03) is None  # it is in its long poll
        sent = time.monotonic()
        producer.produce(topic, b"x")
        producer.poll(0)
        assert consumer.poll(PATIENCE_S) is not None
        latencies.append(time.monotonic() - sent)
    consumer.close()
    assert median(latencies) < 2  # the long poll takes 20 s: whoever waits for it to end is far off


def test_a_fetch_waits_for_min_bytes_or_for_its_time(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Raw(node.port) as raw, Raw(node.port) as writing:

        def fetch(max_wait_ms: int, *written: int) -> tuple[float, int]:
            """While so many bytes are written in so many pieces; how long it took, and how much came."""
            began = time.monotonic()
            values = fetch_values({(topic, 0): 0}, max_wait_ms=max_wait_ms, min_bytes=5000)
            raw.send(frame(FETCH, 11, **values))
            for size in written:
                assert not raw.has_something(), "it was answered before there was enough"
                batch = build_batch([Record(None, b"x" * size, 0)])
                writing.ask(PRODUCE, 9, **produce_values(topic, batch))
            answer = raw.receive_answer(FETCH, 11)
            return time.monotonic() - began, len(answer.responses[0].partitions[0].records or b"")

        # nothing comes, or too little: the answer comes when the wait is over
        took, size = fetch(300)
        assert took >= 0.29 and not size
        took, size = fetch(1500, 100)
        assert took >= 1.49 and size > 100
        # enough comes, in pieces: the answer comes before its time
        took, size = fetch(int(PATIENCE_S * 1000), 2000, 2000, 2000)
        assert took < PATIENCE_S and size > 5000


def test_fifty_waiting_consumers_cost_an_idle_node_next_to_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_process(tmp_path_factory.mktemp("idle"), num_partitions=4) as node:
        produce(node.address, "watched", 10, partitions=4)
        process = psutil.Process(node.pid)
        waits = fetch_values({("watched", number): 1 for number in range(4)}, max_wait_ms=600_000)
        connections = [Raw(node.port) for _ in range(50)]
        try:
            for connection in connections:
                connection.send(frame(FETCH, 11, **waits))
            assert at_best(lambda: used_in_a_second(process), below=0.05) < 0.05  # it takes them in, then rests
        finally:
            for connection in connections:
                connection.socket.close()


def test_long_polls_end_with_their_connection(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither memory nor descriptors are kept for clients that went away in the middle of a wait."""
    with running_process(tmp_path_factory.mktemp("gone")) as node:
        produce(node.address, "watched", 10)
        process = psutil.Process(node.pid)

        waits = frame(FETCH, 11, **fetch_values({("watched", 0): 1}, max_wait_ms=600_000))

        def come_and_go(times: int) -> None:
            for _ in range(times):
                with Raw(node.port) as connection:
                    connection.send(waits)
                    time.sleep(0.0005)

        descriptors = process.num_fds() + 20  # it opens some others with time
        come_and_go(300)
        until(lambda: process.num_fds() <= descriptors)

        def grows_by() -> float:
            """A node that is starved meets more of them at once, and needs the room once; one that leaks, each time."""
            memory = process.memory_info().rss
            come_and_go(3000)
            until(lambda: process.num_fds() <= descriptors)
            return float(process.memory_info().rss - memory)

        most = 6 * 1024 * 1024
        assert at_best(grows_by, below=most) < most


def used_in_a_second(process: psutil.Process) -> float:
    before = sum(process.cpu_times()[:2])
    time.sleep(1)
    return float(sum(process.cpu_times()[:2]) - before)


def produce(address: str, topic: str, size: int, partitions: int = 1) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    for partition in range(partitions):
        producer.produce(topic, b"x" * size, partition=partition)
    producer.flush(PATIENCE_S)
