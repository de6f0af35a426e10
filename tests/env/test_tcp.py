"""How connections are set up."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator

import pytest

from ottla.env.tcp import BorrowedSocket, is_loopback, socket_of, tune

needs_a_choice = pytest.mark.skipif(
    not hasattr(socket, "TCP_CONGESTION"), reason="this system has one congestion control for all connections"
)


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


def congestion_control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


@needs_a_choice
def test_nothing_is_paced_within_one_machine(sock: socket.socket) -> None:
    tune(sock, "127.0.0.1")
    assert congestion_control(sock) == b"reno"


@needs_a_choice
def test_what_the_machine_chose_holds_for_all_others(sock: socket.socket) -> None:
    chosen = congestion_control(sock)
    tune(sock, "192.0.2.7")
    assert congestion_control(sock) == chosen


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.7"])
def test_small_messages_go_at_once(sock: socket.socket, host: str) -> None:
    tune(sock, host)
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1", True),
        ("127.8.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.168.127.1", False),
        ("::127", False),
        ("?", False),
    ],
)
def test_what_is_within_the_machine(host: str, answer: bool) -> None:
    assert is_loopback(host) is answer


def test_a_loop_that_ends_in_the_middle_of_a_connection_closes_no_file_of_others() -> None:
    """The transport has closed its socket, and its number is another file's, when a protocol is let go of."""
    ours, theirs = socket.socketpair()
    number = ours.fileno()

    async def borrow() -> BorrowedSocket | None:
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(asyncio.Protocol, ours)
        return socket_of(transport)

    borrowed = asyncio.run(borrow())
    assert borrowed is not None and borrowed.fileno() == number
    ours.close()
    other = os.open(os.devnull, os.O_RDONLY)
    assert other == number

    del borrowed

    os.close(other)
    theirs.close()
