"""Requests that are begun and not finished: they do not starve others for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.interop.conftest import create_topic
from tests.interop.raw import PRODUCE, Raw, frame, framed, produce_values
from tests.waiting import at_best, until

from ottla.broker import listening
from ottla.broker import node as broker_node
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import RunningNode, running_node
from ottla.wire import server

MB = 1024 * 1024


@pytest.fixture
def impatient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningNode]:
    """A node whose patience is a second, with room for two requests of a megabyte."""
    monkeypatch.setattr(server, "STALL_SECONDS", 1.0)
    monkeypatch.setattr(listening, "_STALL_CHECK_MS", 100)
    monkeypatch.setattr(broker_node, "_DEFAULT_REQUEST_MEMORY", 2 * MB)
    with running_node(tmp_path) as running:
        create_topic(running.address, "t", 1)
        yield running


def produce_large(port: int) -> float:
    batch = build_batch([Record(None, b"x" * 900_000, time.time_ns() // 1_000_000)])
    began = time.monotonic()
    with Raw(port) as raw:
        answer = raw.ask(PRODUCE, 9, **produce_values("t", batch))
    assert answer.responses[0].partition_responses[0].error_code.name == "none"
    return time.monotonic() - began


def room_is_taken(running: RunningNode) -> bool:
    return running.on_loop(lambda: running.node.listening.connections.pool.lent >= 2 * MB)


def test_whoever_stalls_loses_the_connection_when_others_wait(impatient: RunningNode) -> None:
    with ExitStack() as stack:
        stalled = [stack.enter_context(Raw(impatient.port)) for _ in range(2)]
        for raw in stalled:
            raw.send(framed(PRODUCE, 9, bytes(MB))[:100_000])
        until(lambda: room_is_taken(impatient))
        produce_large(impatient.port)  # as soon as one of them has lost its place
        assert any(raw.is_closed_by_node() for raw in stalled[:1])
        # and those that come later are not hindered any more
        assert at_best(lambda: produce_large(impatient.port), below=1) < 1


def test_a_drip_of_bytes_is_a_stall_too(impatient: RunningNode) -> None:
    import threading

    stop = threading.Event()
    with ExitStack() as stack:
        drips = [stack.enter_context(Raw(impatient.port)) for _ in range(2)]

        def drip(raw: Raw) -> None:
            data = framed(PRODUCE, 9, bytes(MB))
            try:
                raw.send(data[:100_000])
                for at in range(100_000, 200_000):
                    if stop.wait(0.05):
                        return
                    raw.send(data[at : at + 1])
            except OSError:
                pass

        for raw in drips:
            threading.Thread(target=drip, args=(raw,), daemon=True).start()
        until(lambda: room_is_taken(impatient))
        produce_large(impatient.port)
        stop.set()


def test_nobody_is_hurried_while_there_is_room(impatient: RunningNode) -> None:
    batch = build_batch([Record(None, b"x" * 900_000, time.time_ns() // 1_000_000)])
    data = frame(PRODUCE, 9, **produce_values("t", batch))
    with Raw(impatient.port) as slow:
        slow.send(data[:200_000])
        time.sleep(1.5)
        slow.send(data[200_000:])
        assert slow.receive_frame()


def test_a_request_larger_than_the_whole_budget_is_served_alone(impatient: RunningNode) -> None:
    create_topic(impatient.address, "big", 1, max_message_bytes=20 * MB)
    batch = build_batch([Record(None, b"x" * 8 * MB, time.time_ns() // 1_000_000)])
    with Raw(impatient.port) as raw:
        answer = raw.ask(PRODUCE, 9, **produce_values("big", batch))
        assert answer.responses[0].partition_responses[0].error_code.name == "none"
    assert at_best(lambda: produce_large(impatient.port), below=1) < 1
