"""Clients that do not read, do not finish, or send too much: the node's memory stays within its budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from tests.hostile.conftest import MB, Bystander, Peak
from tests.interop.conftest import create_topic
from tests.interop.raw import FETCH, METADATA, PRODUCE, Raw, fetch_values, frame, framed, produce_values
from tests.waiting import PATIENCE_S

from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.process import NodeProcess

REQUEST_BUDGET = 32 * MB  # queued.max.request.bytes, where it is not set
SLACK = 24 * MB


def batch_of(size: int) -> bytes:
    return build_batch([Record(b"key", b"x" * size, time.time_ns() // 1_000_000)])


@contextmanager
def flood(node: NodeProcess, data: bytes, connections: int, times: int) -> Iterator[list[Raw]]:
    """Every connection sends the data again and again, as fast as the node takes it, and reads nothing."""
    with ExitStack() as stack:
        raws = [stack.enter_context(Raw(node.port, timeout=3, receive_buffer=4096)) for _ in range(connections)]

        def send(raw: Raw) -> None:
            with suppress(OSError):  # the node has stopped reading, as it should
                for _ in range(times):
                    raw.send(data)

        threads = [threading.Thread(target=send, args=(raw,), daemon=True) for raw in raws]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        yield raws


def test_readers_that_do_not_read_cost_a_little_each(node: NodeProcess, bystander: Bystander) -> None:
    create_topic(node.address, "large", 1)
    request = frame(PRODUCE, 9, **produce_values("large", batch_of(900_000)))
    with Raw(node.port) as raw:
        for _ in range(40):
            raw.send(request)
            raw.receive_frame()
    ask = frame(FETCH, 11, **fetch_values({("large", 0): 0}, partition_max_bytes=50_000_000))
    with Peak(node) as peak, flood(node, ask, connections=20, times=50) as raws:
        # while 20 clients have asked for 36 MB each, 50 times over, and a producer goes on
        with Raw(node.port) as writer:
            for _ in range(40):
                writer.send(request)
                writer.receive_frame()
        # then one that begins to read gets its answer whole
        raws[0].socket.settimeout(PATIENCE_S)
        assert len(raws[0].receive_frame()) > 36_000_000
    assert peak.grown < 20 * MB + SLACK, f"{peak.grown / MB:.0f} MB more than before"


def test_many_questions_with_long_answers_are_not_answered_ahead_of_the_reader(
    node: NodeProcess, bystander: Bystander
) -> None:
    for number in range(10):
        create_topic(node.address, f"many-{number}", 50)
    ask = frame(
        METADATA, 9, topics=None, allow_auto_topic_creation=False, include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )  # fmt: skip
    with Peak(node) as peak, flood(node, ask * 1000, connections=20, times=5):
        pass
    assert peak.grown < SLACK, f"{peak.grown / MB:.0f} MB more than before"


@pytest.mark.parametrize(
    ("topic", "configs"), [("plain", {}), ("compacted", {"cleanup_policy": "compact"})], ids=["plain", "compacted"]
)
def test_a_flood_of_large_produce_requests_stays_within_the_budget(
    node: NodeProcess, bystander: Bystander, topic: str, configs: dict[str, str]
) -> None:
    create_topic(node.address, topic, 1, retention_bytes=1000, **configs)
    request = frame(PRODUCE, 9, **produce_values(topic, batch_of(1_000_000)))
    with Peak(node) as peak, flood(node, request, connections=60, times=4):
        bystander.check()
    assert peak.grown < REQUEST_BUDGET + SLACK, f"{peak.grown / MB:.0f} MB more than before"


def test_half_sent_requests_hold_no_more_than_the_budget(node: NodeProcess, bystander: Bystander) -> None:
    request = framed(PRODUCE, 9, b"\x00" * (4 * MB))
    with Peak(node) as peak, ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(Raw(node.port)).send(request[: 64 * 1024])
        bystander.check()
    assert peak.grown < REQUEST_BUDGET + SLACK, f"{peak.grown / MB:.0f} MB more than before"
    # once they are gone, large requests are served again
    create_topic(node.address, "after-the-half-sent", 1)
    with Raw(node.port) as raw:
        answer = raw.ask(PRODUCE, 9, **produce_values("after-the-half-sent", batch_of(1_000_000)))
        assert answer.responses[0].partition_responses[0].error_code.name == "none"


def test_two_hundred_readers_that_do_not_read_cost_a_few_megabytes_and_producers_nothing(
    node: NodeProcess, bystander: Bystander
) -> None:
    create_topic(node.address, "wanted-by-many", 1)
    request = frame(PRODUCE, 9, **produce_values("wanted-by-many", batch_of(900_000)))
    with Raw(node.port) as writer:
        for _ in range(20):
            writer.send(request)
            writer.receive_frame()
        ask = frame(FETCH, 11, **fetch_values({("wanted-by-many", 0): 0}, partition_max_bytes=50_000_000))
        with Peak(node) as peak, ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(Raw(node.port, receive_buffer=4096)).send(ask * 3)
            for _ in range(100):
                writer.send(request)
                writer.receive_frame()
            bystander.check()
    assert peak.grown < 12 * MB, f"{peak.grown / MB:.0f} MB more than before"
