"""A node among bad company, and a well-behaved client that must not notice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final

import psutil
import pytest
from tests.interop.conftest import create_topic
from tests.waiting import PATIENCE_S, until

from ottla.testing.process import NodeProcess, running_process

MB: Final = 1024 * 1024


class Bystander:
    """Produces and consumes all the time; every error that it sees is kept, and how long a record took at most."""

    TOPIC: Final = "bystander"

    def __init__(self, address: str) -> None:
        self.errors: list[str] = []
        self.delivered = 0
        self.read = 0
        self.slowest_s = 0.0
        self._address = address
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._read)]

    def __enter__(self) -> Bystander:
        create_topic(self._address, self.TOPIC, 1)
        for thread in self._threads:
            thread.start()
        until(lambda: self.read >= 5 or self.errors, "the bystander is served")
        assert not self.errors, self.errors
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def check(self) -> None:
        """Still served after all that has happened."""
        before = self.read
        until(lambda: self.read >= before + 3 or self.errors, "the bystander is still served")
        assert not self.errors, self.errors[:5]

    def _note(self, error: Any) -> None:
        self.errors.append(str(error))

    def _write(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self._address, "acks": "all", "enable.idempotence": True, "linger.ms": 0,
                "error_cb": self._note, "log_level": 0,
            }
        )  # fmt: skip

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self._note(error)
            self.delivered += 1
            self.slowest_s = max(self.slowest_s, message.latency() or 0.0)

        while not self._stop.wait(0.005):
            producer.produce(self.TOPIC, b"x" * 200, on_delivery=delivered)
            producer.poll(0)
        producer.flush(PATIENCE_S)

    def _read(self) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self._address, "group.id": "b", "enable.auto.commit": False,
                "error_cb": self._note, "log_level": 0,
            }
        )  # fmt: skip
        consumer.assign([TopicPartition(self.TOPIC, 0, 0)])
        while not self._stop.is_set():
            for message in consumer.consume(100, 0.1):
                if message.error() is not None:
                    self._note(message.error())
                elif message.offset() != self.read:
                    self._note(f"offset {message.offset()} came, {self.read} was expected")
                self.read += 1
        consumer.close()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_process(tmp_path_factory.mktemp("hostile")) as node:
        yield node


@pytest.fixture(scope="module")
def _company(node: NodeProcess) -> Iterator[Bystander]:
    with Bystander(node.address) as bystander:
        yield bystander


@pytest.fixture
def bystander(node: NodeProcess, _company: Bystander) -> Iterator[Bystander]:
    """There during the test; afterwards it was always served, nothing was kept open and nothing went wrong inside."""
    process = psutil.Process(node.pid)
    descriptors, begun_at = process.num_fds(), node.log_size()
    yield _company
    _company.check()
    log = node.log(since=begun_at)
    assert "Traceback" not in log, log[-5000:]
    assert " ERROR " not in log, log[-5000:]
    until(
        lambda: process.num_fds() <= descriptors + 20,
        lambda: f"{descriptors} descriptors before, {process.num_fds()} after",
    )  # logs of new topics, pipes to the process that checks records


def memory(node: NodeProcess) -> int:
    """Of the node and of the process that it has for checking records."""
    process = psutil.Process(node.pid)
    return int(process.memory_info().rss)


class Peak:
    """The node's largest memory while the block runs: `with Peak(node) as peak: ...; peak.grown`."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.before = self.largest = memory(node)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.largest = max(self.largest, memory(self._node))

    @property
    def grown(self) -> int:
        return self.largest - self.before
