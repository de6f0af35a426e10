"""The tiny HTTP server: what it answers, and whom it gets rid of."""

from __future__ import annotations

import asyncio
import http.client
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from http import HTTPStatus

import pytest
from tests.waiting import PATIENCE_S, until

from ottla.env.network import TcpNetwork
from ottla.wire import http as served
from ottla.wire.http import Answer, HttpRoutes

CHUNK = b"x" * 100_000


async def hello() -> Answer:
    return Answer(HTTPStatus.OK, "text/plain", b"hello\n")


async def large() -> Answer:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield CHUNK

    return Answer(HTTPStatus.OK, "text/plain", chunks())


async def broken() -> Answer:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"it begins well"
        raise RuntimeError("and ends badly")

    return Answer(HTTPStatus.OK, "text/plain", chunks())


@pytest.fixture
def routes() -> HttpRoutes:
    return HttpRoutes({"/hello": hello, "/large": large, "/broken": broken})


@pytest.fixture
def port(routes: HttpRoutes) -> Iterator[int]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen() -> int:
        listener = await TcpNetwork().listen(routes, "127.0.0.1", 0)
        await listener.serve()
        return listener.port

    yield asyncio.run_coroutine_threadsafe(listen(), loop).result(PATIENCE_S)
    loop.call_soon_threadsafe(routes.close)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE_S)
    loop.close()


def ask(port: int, path: str, method: str = "GET") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request(method, path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def send(port: int, data: bytes) -> bytes:
    """All that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as sock:
        sock.sendall(data)
        answer = b""
        try:
            while more := sock.recv(65536):
                answer += more
        except ConnectionResetError:
            pass
        return answer


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/hello", (200, b"hello\n")),
        ("GET", "/hello?with=a&query", (200, b"hello\n")),
        ("HEAD", "/hello", (200, b"")),
        ("HEAD", "/large", (200, b"")),
        ("POST", "/hello", (405, b"Method Not Allowed\n")),
        ("GET", "/nowhere", (404, b"Not Found: here are: /hello /large /broken\n")),
        ("GET", "/../hello", (404, b"Not Found: here are: /hello /large /broken\n")),
    ],
)
def test_paths_are_answered(port: int, method: str, path: str, expected: tuple[int, bytes]) -> None:
    assert ask(port, path, method) == expected


def test_a_long_answer_comes_whole(port: int) -> None:
    assert ask(port, "/large") == (200, CHUNK * 200)


def test_an_old_client_gets_it_without_chunks(port: int) -> None:
    answer = send(port, b"GET /large HTTP/1.0\r\n\r\n")
    assert answer.partition(b"\r\n\r\n")[2] == CHUNK * 200


def test_a_client_can_tell_that_an_answer_broke_off(port: int) -> None:
    with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        ask(port, "/broken")
    assert ask(port, "/hello") == (200, b"hello\n")


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x10\x00\x12\x00\x03 what Kafka speaks\n\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /hello\r\n\r\n",
        b"GET /hello HTTP/2.0\r\n\r\n",
        b"GET  /hello HTTP/1.1\r\n\r\n",
        b"\r\n\r\n",
        b"GET /hello HTTP/1.1\r\n" + b"X: " + b"y" * 20_000 + b"\r\n\r\n",
        b"y" * 1_000_000,
    ],
    ids=["kafka", "tls", "no-version", "other-version", "spaces", "nothing", "large-head", "endless"],
)
def test_garbage_is_refused(port: int, data: bytes) -> None:
    answer = send(port, data)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert ask(port, "/hello") == (200, b"hello\n")


def test_what_comes_after_a_request_is_not_looked_at(port: int) -> None:
    answer = send(port, b"GET /hello HTTP/1.1\r\n\r\n" * 1000)
    assert answer.count(b"HTTP/1.1 200") == 1


def test_who_does_not_ask_is_closed(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "REQUEST_SECONDS", 0.2)
    assert send(port, b"GET /hello HT") == b""


def test_who_does_not_read_is_closed_and_costs_little(
    port: int, routes: HttpRoutes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "ANSWER_SECONDS", 1.5)
    with ExitStack() as stack:
        for _ in range(5):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            sock.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        until(lambda: len(routes.connections) == 5)
        until(lambda: not routes.connections)
    assert ask(port, "/hello") == (200, b"hello\n")


def test_there_are_never_more_than_a_few_and_who_does_not_read_makes_room(port: int, routes: HttpRoutes) -> None:
    with ExitStack() as stack:
        first, *_ = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            for _ in range(served.MAX_CONNECTIONS)
        ]
        for busy in (first, *_):
            busy.sendall(b"GET /large HTTP/1.1\r\n\r\n")  # and its answer is not read
        until(lambda: len([one for one in list(routes.connections) if one.is_idle]) == served.MAX_CONNECTIONS)
        assert ask(port, "/hello") == (200, b"hello\n")
        until(lambda: len(routes.connections) == served.MAX_CONNECTIONS - 1)
    until(lambda: not routes.connections)


def test_whoever_has_asked_nothing_for_longest_makes_room(port: int, routes: HttpRoutes) -> None:
    with ExitStack() as stack:
        first, *_, last = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S))
            for _ in range(served.MAX_CONNECTIONS)
        ]
        until(lambda: len(routes.connections) == served.MAX_CONNECTIONS)
        assert ask(port, "/hello") == (200, b"hello\n")
        assert ended(first)
        last.sendall(b"GET /hello HTTP/1.0\r\n\r\n")
        assert b"200" in last.recv(1000)


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
