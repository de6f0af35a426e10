"""Long polls: a record is handed on the moment it comes, and those who wait cost nothing."""

from __future__ import annotations

import threading
import time
from statistics import median

import psutil
import pytest
from tests.interop.conftest import NewTopic
from tests.interop.raw import FETCH, Raw, fetch_values, frame

from ottla.testing.process import NodeProcess, running_process


def test_a_waiting_consumer_gets_a_record_at_once(node: NodeProcess, new_topic: NewTopic) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    topic = new_topic()
    consumer = Consumer(
        {"bootstrap.servers": node.address, "group.id": "x", "fetch.wait.max.ms": 5000, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = Producer({"bootstrap.servers": node.address, "linger.ms": 0})
    producer.produce(topic, b"warm-up")
    producer.flush(5)
    first = consumer.poll(10)
    assert first is not None and first.value() == b"warm-up"
    latencies = []
    for _ in range(20):
        assert consumer.poll(0.03) is None  # it is in its long poll
        sent = time.monotonic()
        producer.produce(topic, b"x")
        producer.poll(0)
        assert consumer.poll(5) is not None
        latencies.append(time.monotonic() - sent)
    consumer.close()
    assert median(latencies) < 0.05  # the long poll takes 5 s: whoever waits for it to end is far off


def test_a_fetch_waits_for_min_bytes_or_for_its_time(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Raw(node.port) as raw:

        def fetch(max_wait_ms: int, min_bytes: int) -> tuple[float, int]:
            """How long it took, and how much came."""
            began = time.monotonic()
            values = fetch_values({(topic, 0): 0}, max_wait_ms=max_wait_ms, min_bytes=min_bytes)
            (answered,) = raw.ask(FETCH, 11, **values).responses
            return time.monotonic() - began, len(answered.partitions[0].records or b"")

        # nothing comes: the answer comes when the wait is over
        took, size = fetch(300, 1)
        assert 0.29 <= took < 2 and not size
        # too little comes: the same
        threading.Timer(0.1, produce, (node.address, topic, 100)).start()
        took, size = fetch(600, 5000)
        assert 0.59 <= took < 2 and size > 100
        # enough comes, in pieces: the answer comes before its time
        for delay in (0.1, 0.2, 0.3):
            threading.Timer(delay, produce, (node.address, topic, 2000)).start()
        took, size = fetch(8000, 5000)
        assert 0.2 <= took < 4 and size > 5000


def test_fifty_waiting_consumers_cost_an_idle_node_next_to_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_process(tmp_path_factory.mktemp("idle"), num_partitions=4) as node:
        produce(node.address, "watched", 10, partitions=4)
        process = psutil.Process(node.pid)
        waits = fetch_values({("watched", number): 1 for number in range(4)}, max_wait_ms=60_000)
        connections = [Raw(node.port) for _ in range(50)]
        try:
            for connection in connections:
                connection.send(frame(FETCH, 11, **waits))
            time.sleep(0.5)  # all have been taken in
            before, began = cpu(process), time.monotonic()
            time.sleep(3)
            used, took = cpu(process) - before, time.monotonic() - began
        finally:
            for connection in connections:
                connection.socket.close()
        assert used / took < 0.05, f"{used:.2f} s of CPU in {took:.1f} s of idling"


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

        come_and_go(300)
        time.sleep(0.2)
        descriptors, memory = process.num_fds(), process.memory_info().rss
        come_and_go(3000)
        time.sleep(0.2)
        assert process.num_fds() <= descriptors + 3
        assert process.memory_info().rss < memory + 6 * 1024 * 1024


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def produce(address: str, topic: str, size: int, partitions: int = 1) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    for partition in range(partitions):
        producer.produce(topic, b"x" * size, partition=partition)
    producer.flush(10)
