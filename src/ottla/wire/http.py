"""A tiny HTTP server: GET and HEAD of a few paths, for programs that watch a node. Not for the open internet.

A client that sends garbage, too much, too slowly, or does not read, costs a bounded amount of memory for a bounded
time. Every connection serves one request: whoever scrapes does so every few seconds, and this way nothing is ever left
of one request when the next begins.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple, cast

_log = logging.getLogger("ottla.wire")

MAX_HEAD_BYTES: Final = 8 * 1024
MAX_CONNECTIONS: Final = 32
REQUEST_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 60.0
_END: Final = re.compile(rb"\r?\n\r?\n")


class Answer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes | AsyncIterator[bytes]


Route = Callable[[], Awaitable[Answer]]


class HttpRoutes:
    """What is served, and who is being served."""

    def __init__(self, routes: Mapping[str, Route]) -> None:
        self.routes = routes
        self.connections: dict[HttpConnection, None] = {}

    def __call__(self) -> HttpConnection:
        return HttpConnection(self)

    def give_up_idlest(self) -> bool:
        """Whoever has asked nothing, or not read, for longest makes room; False if for all an answer is being made."""
        idle = next((connection for connection in self.connections if connection.is_idle), None)
        if idle is not None:
            del self.connections[idle]
            idle.abort()
        return idle is not None

    def close(self) -> None:
        for connection in list(self.connections):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    def __init__(self, served: HttpRoutes) -> None:
        self._served = served
        self._transport: asyncio.Transport | None = None
        self._head = bytearray()
        self._patience: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()

    @property
    def is_idle(self) -> bool:
        """It is the client's turn: to ask, or to read."""
        return self._task is None or not self._may_write.is_set()

    # -- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._served.connections) >= MAX_CONNECTIONS and not self._served.give_up_idlest():
            self.abort()
            return
        self._served.connections[self] = None
        self._patience = asyncio.get_running_loop().call_later(REQUEST_SECONDS, self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._served.connections.pop(self, None)
        if self._patience is not None:
            self._patience.cancel()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._task is not None or self._transport is None:
            return  # one request is all that is answered; what comes after it is not looked at
        self._head += data[: MAX_HEAD_BYTES + 1]
        if (end := _END.search(self._head)) is not None:
            self._begin(bytes(self._head[: end.end()]))
        elif len(self._head) > MAX_HEAD_BYTES:
            self._begin(b"")

    def eof_received(self) -> bool:
        return self._task is not None  # a client may close its side after asking

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- a request

    def _begin(self, head: bytes) -> None:
        loop = asyncio.get_running_loop()
        if self._patience is not None:
            self._patience.cancel()
        self._patience = loop.call_later(ANSWER_SECONDS, self.abort)
        self._task = loop.create_task(self._serve(head))

    async def _serve(self, head: bytes) -> None:
        method, answer = "GET", None
        try:
            method, answer = await self._answer(head)
            await self._send(answer, chunked=b" HTTP/1.1" in head.partition(b"\n")[0], with_body=method != "HEAD")
        except asyncio.CancelledError:
            raise
        except Exception:
            _log.exception("an answer over HTTP failed")
            self.abort()
            return
        if self._transport is not None:
            self._transport.close()

    async def _answer(self, head: bytes) -> tuple[str, Answer]:
        words = head.partition(b"\n")[0].rstrip(b"\r").split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or len(head) > MAX_HEAD_BYTES:
            return "GET", _plain(HTTPStatus.BAD_REQUEST)
        method, path = words[0].decode("latin-1"), words[1].partition(b"?")[0].decode("latin-1")
        route = self._served.routes.get(path)
        if route is None:
            return method, _plain(HTTPStatus.NOT_FOUND, f"here are: {' '.join(self._served.routes)}")
        if method not in ("GET", "HEAD"):
            return method, _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        return method, await route()

    async def _send(self, answer: Answer, *, chunked: bool, with_body: bool) -> None:
        status, content_type, body = answer
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {content_type}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        if isinstance(body, bytes):
            lines.append(f"Content-Length: {len(body)}")
        elif chunked:
            lines.append("Transfer-Encoding: chunked")
        await self._write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        if not with_body:
            return
        if isinstance(body, bytes):
            await self._write(body)
            return
        async for chunk in body:
            if chunk:
                await self._write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk)
        if chunked:
            await self._write(b"0\r\n\r\n")

    async def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
        await self._may_write.wait()


def _plain(status: HTTPStatus, told: str = "") -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{status.phrase}{told and ': '}{told}\n".encode())
