"""Bytes that are no request: that connection is closed with one line in the log, and nobody else notices."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import psutil
import pytest
from tests.hostile.conftest import MB, Bystander, memory
from tests.interop.raw import API_VERSIONS, FETCH, METADATA, Raw, fetch_values, frame
from tests.waiting import until

from ottla.testing.process import NodeProcess

CLOSING = "closing the connection from"
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(190))
HTTP = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"


def sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


GARBAGE = {
    "a negative size": (-1).to_bytes(4, "big", signed=True) + b"rest",
    "the smallest size": b"\x80\x00\x00\x00",
    "a size above the limit": (200 * MB).to_bytes(4, "big"),
    "the largest size": b"\x7f\xff\xff\xff",
    "size zero": b"\x00\x00\x00\x00",
    "a frame too short for a header": sized(b"\x00\x12\x00"),
    "an unknown key": sized(b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff"),
    "a negative key": sized(b"\xff\xf0\x00\x00\x00\x00\x00\x01\xff\xff"),
    "an unknown version": sized(b"\x00\x03\x7f\xff\x00\x00\x00\x01\xff\xff\x00"),
    "a negative version": sized(b"\x00\x03\xff\xff\x00\x00\x00\x01\xff\xff"),
    "a client id that ends outside": sized(b"\x00\x03\x00\x01\x00\x00\x00\x01\x7f\xff"),
    "an API that is not offered": sized(b"\x00\x0b\x00\x05\x00\x00\x00\x01\xff\xff"),
    "HTTP": HTTP,
    "TLS": TLS_HELLO,
}


def lines(node: NodeProcess, since: int) -> list[str]:
    return node.log(since=since).splitlines()


def until_logged(node: NodeProcess, since: int, count: int) -> list[str]:
    until(lambda: len(lines(node, since)) >= count)
    return lines(node, since)


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_closes_its_connection_with_one_line(node: NodeProcess, bystander: Bystander, kind: str) -> None:
    begun_at = node.log_size()
    with Raw(node.port) as raw:
        raw.send(GARBAGE[kind])
        assert raw.is_closed_by_node()
    told = until_logged(node, begun_at, 1)
    assert len(told) == 1 and CLOSING in told[0], told


def test_garbage_after_good_requests_closes_only_then(node: NodeProcess, bystander: Bystander) -> None:
    with Raw(node.port) as raw:
        ask = frame(API_VERSIONS, 0)
        for _ in range(3):
            raw.send(ask)
            assert raw.receive_frame()
        raw.send(GARBAGE["a negative size"])
        assert raw.is_closed_by_node()


def test_what_was_asked_before_garbage_is_answered_first(node: NodeProcess, bystander: Bystander) -> None:
    """Also if all of it comes at once, and if an answer takes its time."""
    waits = frame(FETCH, 11, **fetch_values({(Bystander.TOPIC, 0): 1 << 40}, max_wait_ms=1), replica_id=-1)
    slow = frame(FETCH, 11, **fetch_values({}, max_wait_ms=100, min_bytes=1), replica_id=-1)
    for questions in ([frame(API_VERSIONS, 0)] * 3, [waits, slow, frame(API_VERSIONS, 0)]):
        with Raw(node.port) as raw:
            raw.send(b"".join(questions) + GARBAGE["a negative size"])
            for _ in questions:
                assert raw.receive_frame()
            assert raw.is_closed_by_node()


def test_random_bytes_never_do_harm(node: NodeProcess, bystander: Bystander) -> None:
    dice = random.Random(3)
    begun_at, before = node.log_size(), memory(node)
    closed = 0
    for number in range(400):
        data = dice.randbytes(dice.randrange(1, 3000))
        if number % 4:  # with a right size, so that what is inside is looked at
            data = sized(data)
        if number % 4 == 3:  # and with a right key and version
            data = data[:4] + bytes((0, dice.choice((0, 1, 2, 3, 10, 18, 19, 20, 22, 23, 32, 60)), 0)) + data[7:]
        with Raw(node.port) as raw:
            raw.send(data)
            raw.socket.shutdown(1)
            assert raw.is_closed_by_node()
            closed += 1
    bystander.check()
    told = lines(node, begun_at)
    assert all(CLOSING in line for line in told), [line for line in told if CLOSING not in line][:5]
    assert len(told) <= closed
    assert memory(node) < before + 30 * MB


def test_connections_that_say_nothing_and_vanish_leave_nothing(node: NodeProcess, bystander: Bystander) -> None:
    process = psutil.Process(node.pid)
    before = process.num_fds()

    def come_and_go(leave: Callable[[Raw], None]) -> None:
        for _ in range(300):
            raw = Raw(node.port)
            leave(raw)
            raw.socket.close()

    come_and_go(lambda raw: None)
    come_and_go(lambda raw: raw.send(b"\x00\x00"))
    come_and_go(lambda raw: raw.send(b"\x00\x01\x00\x00" + b"half of a request"))
    come_and_go(lambda raw: raw.send(frame(METADATA, 9, topics=None, **NO_EXTRAS)))  # and the answer is not read
    until(lambda: process.num_fds() <= before + 3, lambda: f"{before} descriptors before, {process.num_fds()} after")


NO_EXTRAS = {
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


def test_a_request_that_drips_in_byte_by_byte_is_answered(node: NodeProcess, bystander: Bystander) -> None:
    ask = frame(METADATA, 9, topics=None, **NO_EXTRAS)
    with Raw(node.port) as raw:
        for _ in range(3):
            for at in range(len(ask)):
                raw.send(ask[at : at + 1])
                time.sleep(0.001)
            assert Bystander.TOPIC.encode() in raw.receive_frame()
