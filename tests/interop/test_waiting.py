"""Long polls: a record is handed on the moment it comes, and those who wait cost nothing."""

from __future__ import annotations

import socket
import threading
import time
from statistics import median

import psutil
import pytest
from tests.interop.conftest import NewTopic

from ottla.testing.process import NodeProcess, running_process
from ottla.wire import codec


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
    assert consumer.poll(10).value() == b"warm-up"
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
    with socket.create_connection(("127.0.0.1", node.port), timeout=10) as client:
        # nothing comes: the answer comes when the wait is over
        began = time.monotonic()
        fetch(client, topic, max_wait_ms=300, min_bytes=1)
        assert 0.29 <= time.monotonic() - began < 2
        # too little comes: the same
        threading.Timer(0.1, produce, (node.address, topic, 100)).start()
        began = time.monotonic()
        fetch(client, topic, max_wait_ms=600, min_bytes=5000)
        assert 0.59 <= time.monotonic() - began < 2
        # enough comes, in pieces: the answer comes before its time
        for delay in (0.1, 0.2, 0.3):
            threading.Timer(delay, produce, (node.address, topic, 2000)).start()
        began = time.monotonic()
        answer = fetch(client, topic, max_wait_ms=8000, min_bytes=5000)
        assert 0.2 <= time.monotonic() - began < 4
        assert len(answer) > 5000


def test_fifty_waiting_consumers_cost_an_idle_node_next_to_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_process(tmp_path_factory.mktemp("idle"), num_partitions=4) as node:
        produce(node.address, "watched", 10, partitions=4)
        process = psutil.Process(node.pid)
        connections = [socket.create_connection(("127.0.0.1", node.port)) for _ in range(50)]
        try:
            frames = [fetch_frame("watched", 10_000, 1_000_000, partitions=4, offset=1) for _ in connections]
            for connection, frame in zip(connections, frames, strict=True):
                connection.sendall(frame)
            time.sleep(0.5)  # all have been taken in
            before, began = cpu(process), time.monotonic()
            time.sleep(3)
            used, took = cpu(process) - before, time.monotonic() - began
        finally:
            for connection in connections:
                connection.close()
        assert used / took < 0.05, f"{used:.2f} s of CPU in {took:.1f} s of idling"


def test_long_polls_end_with_their_connection(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Neither memory nor descriptors are kept for clients that went away in the middle of a wait."""
    with running_process(tmp_path_factory.mktemp("gone")) as node:
        produce(node.address, "watched", 10)
        process = psutil.Process(node.pid)

        def come_and_go(times: int) -> None:
            for _ in range(times):
                with socket.create_connection(("127.0.0.1", node.port)) as connection:
                    connection.sendall(fetch_frame("watched", 600_000, 1_000_000, offset=1))
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


def fetch_frame(topic: str, max_wait_ms: int, min_bytes: int, partitions: int = 1, offset: int = 0) -> bytes:
    from datetime import timedelta

    from kio.schema.fetch.v11 import request as schema
    from kio.static.primitive import i16, i32, i64

    entity = schema.FetchRequest(
        max_wait=timedelta(milliseconds=max_wait_ms),  # type: ignore[arg-type]
        min_bytes=i32(min_bytes),
        max_bytes=i32(50_000_000),
        isolation_level=i16(0),  # type: ignore[arg-type]
        session_id=i32(0),
        session_epoch=i32(-1),
        topics=(
            schema.FetchTopic(
                topic=topic,  # type: ignore[arg-type]
                partitions=tuple(
                    schema.FetchPartition(
                        partition=i32(number), fetch_offset=i64(offset), partition_max_bytes=i32(1_000_000)
                    )
                    for number in range(partitions)
                ),
            ),
        ),
        forgotten_topics_data=(),
        rack_id="",
    )
    body = codec.request_header(1, 11, 7, "waiter") + codec.encode_request(entity)
    return len(body).to_bytes(4, "big") + body


def fetch(connection: socket.socket, topic: str, max_wait_ms: int, min_bytes: int) -> bytes:
    connection.sendall(fetch_frame(topic, max_wait_ms, min_bytes))
    size = int.from_bytes(receive(connection, 4), "big")
    return receive(connection, size)


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        assert piece, "the node closed the connection"
        data += piece
    return data
