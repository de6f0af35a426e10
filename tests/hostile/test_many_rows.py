"""Requests with as many rows as fit: answered or refused, and nobody else waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from tests.hostile.conftest import MB, Bystander, Peak
from tests.hostile.many_rows import arrays_in, swollen
from tests.interop.conftest import create_topic
from tests.interop.raw import API_VERSIONS, FETCH, METADATA, PRODUCE, Raw, fetch_values, frame, framed, produce_values
from tests.waiting import PATIENCE_S, at_best, until

from ottla.broker.apis.registry import ALL
from ottla.env.slices import MOST_ROWS
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.process import NodeProcess
from ottla.wire.varint import uvarint

ROWS = 30_000  # half a second's work, and more, for most APIs
SHORT_S = 0.15
BY_HAND = {"Produce", "Fetch"}  # which read their requests themselves
TOPIC = "named-often"
CASES = [
    pytest.param(api, path, id=f"{api.name}-{'.'.join(path)}")
    for api in ALL
    if api.name not in BY_HAND
    for path in arrays_in(api, TOPIC, UUID(int=1))
]


class Pings:
    """Somebody else on another connection; `slowest` is how long he had to wait at most."""

    def __init__(self, port: int) -> None:
        self.slowest = 0.0
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Pings:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        with Raw(self._port) as raw:
            while not self._stop.is_set():
                began = time.perf_counter()
                raw.ask(API_VERSIONS, 0)
                self.slowest = max(self.slowest, time.perf_counter() - began)


@pytest.fixture(scope="module")
def topic_id(node: NodeProcess) -> UUID:
    create_topic(node.address, TOPIC, 1)
    with Raw(node.port) as raw:
        raw.ask(10, 4, key_type=0, coordinator_keys=["nothing"])  # so that there is a coordinator
        answer = raw.ask(
            METADATA, 12, topics=[{"name": TOPIC, "topic_id": None}], allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )  # fmt: skip
    found: UUID = answer.topics[0].topic_id
    return found


def outcome(node: NodeProcess, request: bytes) -> bytes | None:
    with Raw(node.port, timeout=60) as raw:
        try:
            raw.send(request)
            return raw.receive_frame()
        except ConnectionError:
            return None


@pytest.mark.parametrize(("api", "path"), CASES)
def test_nobody_waits_for_a_request_of_many_rows(
    node: NodeProcess, bystander: Bystander, topic_id: UUID, api: Any, path: tuple[str, ...]
) -> None:
    request = swollen(api, TOPIC, topic_id, path, ROWS)

    def share() -> float:
        """Of the time that it took, how much somebody else waited at once. What takes no time is nobody's trouble."""
        with Pings(node.port) as pings:
            began = time.perf_counter()
            outcome(node, request)
            took = time.perf_counter() - began
        return 0.0 if pings.slowest < SHORT_S else pings.slowest / took

    assert at_best(share, below=0.5) < 0.5


def produced(rows: int, name: str) -> bytes:
    batch = build_batch([Record(None, b"x", time.time_ns() // 1_000_000)])
    named = [{"index": number, "records": batch} for number in range(rows)]
    return frame(PRODUCE, 9, **{**produce_values(name, batch), "topic_data": [{"name": name, "partition_data": named}]})


def produced_to_topics(rows: int, name: str) -> bytes:
    batch = build_batch([Record(None, b"x" * 100, time.time_ns() // 1_000_000)])
    named = [{"name": f"{name}{n}", "partition_data": [{"index": 0, "records": batch}]} for n in range(rows)]
    return frame(PRODUCE, 9, **{**produce_values(name, batch), "topic_data": named})


def fetched(rows: int, name: str) -> bytes:
    return frame(FETCH, 11, **fetch_values({(name, number): 0 for number in range(rows)}))


def fetched_of_topics(rows: int, name: str) -> bytes:
    return frame(FETCH, 12, **fetch_values({(f"{name}{number}", 0): 0 for number in range(rows)}))


@pytest.mark.parametrize("request_of", [produced, produced_to_topics, fetched, fetched_of_topics])
@pytest.mark.parametrize("name", [TOPIC, "not-there"])
def test_nobody_waits_for_many_partitions_that_are_written_or_read(
    node: NodeProcess, bystander: Bystander, topic_id: UUID, name: str, request_of: Callable[[int, str], bytes]
) -> None:
    request = request_of(ROWS // 2, name)

    def slowest() -> float:
        """As a share of the time that the answer took."""
        with Pings(node.port) as pings:
            began = time.perf_counter()
            assert outcome(node, request)
            took = time.perf_counter() - began
            time.sleep(0.05)  # who still waits is answered
        return pings.slowest / took

    assert at_best(slowest, below=0.5) < 0.5


def test_of_many_partitions_those_that_are_there_are_written_and_read(node: NodeProcess, bystander: Bystander) -> None:
    name = "of-one-partition"  # others delete topics here
    create_topic(node.address, name, 1)
    with Raw(node.port, timeout=60) as raw:
        raw.send(produced(ROWS // 2, name))
        (topic,) = raw.receive_answer(PRODUCE, 9).responses
        assert [row.error_code.name for row in topic.partition_responses[:2]] == ["none", "unknown_topic_or_partition"]
        assert [row.index for row in topic.partition_responses] == list(range(ROWS // 2))
        offset = topic.partition_responses[0].base_offset
        wanted = {(name, number): offset for number in range(ROWS // 2)}
        raw.send(frame(FETCH, 11, **fetch_values(wanted, max_wait_ms=1000)))
        (read,) = raw.receive_answer(FETCH, 11).responses
    assert [row.partition_index for row in read.partitions] == list(range(ROWS // 2))
    assert read.partitions[0].records and not read.partitions[1].records


def test_a_fetch_of_many_partitions_waits_for_what_is_written(node: NodeProcess, bystander: Bystander) -> None:
    """A thousand and more that are all there, and at their ends."""
    create_topic(node.address, "wide", 1200)
    batch = build_batch([Record(None, b"x", time.time_ns() // 1_000_000)])
    wanted = {("wide", number): 0 for number in range(1200)}
    with Raw(node.port, timeout=60) as raw, Raw(node.port) as other:

        def all_there() -> bool:
            """Most of them are made after the topic's creation was answered."""
            (topic,) = other.ask(FETCH, 11, **fetch_values(wanted)).responses
            return all(row.error_code.name == "none" for row in topic.partitions)

        until(all_there)
        raw.send(frame(FETCH, 11, **fetch_values(wanted, max_wait_ms=30_000)))
        time.sleep(0.3)
        assert not raw.has_something()
        began = time.perf_counter()
        other.ask(PRODUCE, 9, **produce_values("wide", batch, partition=7))
        (read,) = raw.receive_answer(FETCH, 11).responses
        assert time.perf_counter() - began < 10
    assert [row.partition_index for row in read.partitions if row.records] == [7]


def test_a_produce_request_with_too_many_partitions_is_refused(node: NodeProcess, bystander: Bystander) -> None:
    begun_at = node.log_size()
    assert outcome(node, produced(MOST_ROWS + 1, "not-there")) is None
    assert f"or more than {MOST_ROWS}" in node.log(since=begun_at)


def test_answers_come_in_the_order_of_the_questions(node: NodeProcess, bystander: Bystander) -> None:
    names = [{"name": f"n{number}"} for number in range(20_000)]
    long = frame(75, 0, topics=names, response_partition_limit=2000, cursor=None)
    short = frame(API_VERSIONS, 0)
    with Raw(node.port, timeout=60) as raw:
        raw.send(short + long + short + long + short)
        asked = [int.from_bytes(one[8:12], "big") for one in (short, long, short, long, short)]
        assert [int.from_bytes(raw.receive_frame()[:4], "big") for _ in range(5)] == asked


def test_more_rows_than_a_message_may_have_are_refused_before_they_cost(
    node: NodeProcess, bystander: Bystander
) -> None:
    many = 4 * MB // 3 - 100

    def slowest() -> float:
        begun_at = node.log_size()
        with Pings(node.port) as pings, Peak(node) as peak, Raw(node.port) as raw:
            raw.send(framed(75, 0, uvarint(many + 1) + b"\x02n\x00" * many + b"\x00\x00\x07\xd0\xff\x00"))
            assert raw.is_closed_by_node()
        assert f"more than {MOST_ROWS} rows" in node.log(since=begun_at)
        assert peak.grown < 20 * MB
        return pings.slowest

    assert at_best(slowest, below=1) < 1


def test_many_large_requests_at_once_are_answered_a_few_at_a_time(node: NodeProcess, bystander: Bystander) -> None:
    names = [{"name": f"n{number}"} for number in range(MOST_ROWS - 10)]
    request = frame(75, 0, topics=names, response_partition_limit=2000, cursor=None)
    answers: list[bytes | None] = []
    with Peak(node) as peak:
        threads = [threading.Thread(target=lambda: answers.append(outcome(node, request))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(answers) == 8 and all(answers)
    assert peak.grown < 120 * MB, f"{peak.grown / MB:.0f} MB more than before"
