"""One connection to a broker, for nodes among themselves, tools and tests.

Requests are pipelined: any number may be under way, and answers come in the order of the requests, as Kafka promises.
An answer is received straight into a buffer of its own size, so that a large one is copied once. Waiting is always
bounded: `within` gives the seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, cast

from ottla import __version__
from ottla.env.ports import Buffer, Env
from ottla.env.tcp import BorrowedSocket, socket_of
from ottla.model.errors import ErrorCode, OttlaError
from ottla.wire import codec

_log = logging.getLogger("ottla.wire")

CONNECT_TIMEOUT_S: Final = 10.0
REQUEST_TIMEOUT_S: Final = 30.0
LARGEST_ANSWER: Final = 1 << 30

_SIZE: Final = Struct(">i")
_CORRELATION: Final = Struct(">i")
_RECEIVE_BUFFER: Final = 64 * 1024
_SMALL_REQUEST: Final = 16 * 1024  # up to here copying is cheaper than another buffer in the transport


class ConnectionFailed(OttlaError):
    """No connection, or no longer one: requests under way may or may not have been carried out."""


class RequestTimedOut(OttlaError):
    """The broker has not answered in time; it may still carry the request out."""


class VersionRange(NamedTuple):
    oldest: int
    newest: int


class PromptAnswer:
    """What a future is to who can wait for it; here a callback is called at once, not in the loop's next turn."""

    __slots__ = ("_callback", "body", "error")

    def __init__(self, callback: Callable[[PromptAnswer], None]) -> None:
        self._callback: Callable[[PromptAnswer], None] | None = callback
        self.body: memoryview | None = None
        self.error: ConnectionFailed | None = None

    def done(self) -> bool:
        return self._callback is None

    def set_result(self, body: memoryview) -> None:
        self.body = body
        self._tell()

    def set_exception(self, error: ConnectionFailed) -> None:
        self.error = error
        self._tell()

    def _tell(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            try:
                callback(self)
            except Exception:
                _log.exception("what an answer was for failed")


class _Pending(NamedTuple):
    correlation_id: int
    key: int
    version: int
    answer: asyncio.Future[memoryview] | PromptAnswer


class Connection(asyncio.BufferedProtocol):
    """Made by `open`. Use as `async with`, or call `close`."""

    def __init__(self, host: str, port: int, client_id: str) -> None:
        self.peer = f"{host}:{port}"
        self.client_id = client_id
        self.versions: dict[int, VersionRange] = {}
        self.on_lost: Callable[[Connection, ConnectionFailed], None] | None = None
        self._transport: asyncio.Transport | None = None
        self._socket: BorrowedSocket | None = None  # the transport's
        self._lost: ConnectionFailed | None = None
        self._has_ended = False
        self._pending: deque[_Pending] = deque()
        self._next_correlation_id = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._small = bytearray(_RECEIVE_BUFFER)
        self._small_view = memoryview(self._small)
        self._filled = 0
        self._large: memoryview | None = None  # the rest of an answer that does not fit into the small buffer
        self._large_filled = 0

    @classmethod
    async def open(
        cls, env: Env, host: str, port: int, client_id: str = "ottla", *, within: float = CONNECT_TIMEOUT_S
    ) -> Self:
        try:
            async with asyncio.timeout(within):
                _, connection = await env.network.connect(lambda: cls(host, port, client_id), host, port)
        except TimeoutError:
            raise ConnectionFailed(
                f"no connection to {host}:{port} within {within:g} s; is the address right and reachable?"
            ) from None
        except OSError as error:
            raise ConnectionFailed(
                f"cannot connect to {host}:{port}: {error.strerror or error}; is a broker listening there?"
            ) from error
        assert isinstance(connection, cls)
        return connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection; requests under way fail."""
        if self._transport is not None:
            self._transport.close()
            await self._closed

    def abort(self) -> None:
        """Ends the connection at once, without waiting for it to be over."""
        self._fail(f"connection to {self.peer} was given up")

    @property
    def is_closed(self) -> bool:
        return self._lost is not None

    async def call(self, request: Any, *, within: float = REQUEST_TIMEOUT_S) -> Any:
        """Sends one of kio's request entities and gives the response entity of the same version."""
        key, version = int(request.__api_key__), int(request.__version__)
        body = await self.send_bytes(key, version, (codec.encode_body(request),), within=within)
        try:
            return codec.decode_response(key, version, body)
        except codec.MalformedRequest as error:
            raise ConnectionFailed(f"answer of {self.peer} cannot be read: {error}") from error

    async def send_bytes(
        self, key: int, version: int, body: Sequence[Buffer], *, within: float = REQUEST_TIMEOUT_S
    ) -> memoryview:
        """Sends a body that is already encoded and gives the body of the answer, read-only."""
        try:
            async with asyncio.timeout(within):
                await self._writable.wait()
                correlation_id = self._write(key, version, body)
                answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
                self._pending.append(_Pending(correlation_id, key, version, answer))
                return await answer
        except TimeoutError:
            raise RequestTimedOut(
                f"{self.peer} has not answered request {key} (version {version}) within {within:g} s"
            ) from None

    def send_now(
        self, key: int, version: int, body: Sequence[Buffer], answered: Callable[[PromptAnswer], None]
    ) -> PromptAnswer:
        """For who sees to it himself that little is under way, and that an answer comes in time."""
        correlation_id = self._write(key, version, body)
        answer = PromptAnswer(answered)
        self._pending.append(_Pending(correlation_id, key, version, answer))
        return answer

    async def send_unanswered(self, key: int, version: int, body: Sequence[Buffer]) -> None:
        """Sends what no answer comes to: Produce with acks=0."""
        await self._writable.wait()
        self._write(key, version, body)

    async def negotiate(self, *, within: float = REQUEST_TIMEOUT_S) -> dict[int, VersionRange]:
        """Asks which versions the broker has (KIP-511: an older broker says so in version 0, and is asked again)."""
        from kio.schema.api_versions import v0, v4

        ask = v4.ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__)
        body = await self.send_bytes(codec.API_VERSIONS, 4, (codec.encode_body(ask),), within=within)
        version = 4
        if int.from_bytes(body[:2], "big") == ErrorCode.unsupported_version.value:
            oldest = codec.encode_body(v0.ApiVersionsRequest())
            body = await self.send_bytes(codec.API_VERSIONS, 0, (oldest,), within=within)
            version = 0
        try:
            answer = codec.decode_response(codec.API_VERSIONS, version, body)
        except codec.MalformedRequest as error:
            raise ConnectionFailed(f"{self.peer} does not answer as a Kafka broker: {error}") from error
        if answer.error_code != ErrorCode.none:
            raise ConnectionFailed(f"{self.peer} does not tell its versions: {answer.error_code.name.upper()}")
        self.versions = {int(api.api_key): VersionRange(api.min_version, api.max_version) for api in answer.api_keys}
        return self.versions

    def best_version(self, key: int) -> int:
        """The newest version of an API that the broker and we know; after `negotiate`."""
        offered = self.versions.get(key)
        known = _known_versions(key)
        if offered is None or known is None:
            raise OttlaError(f"{self.peer} does not offer the API with key {key}; is it an older or another broker?")
        best = min(offered.newest, known.newest)
        if best < max(offered.oldest, known.oldest):
            raise OttlaError(
                f"{self.peer} offers versions {offered.oldest} to {offered.newest} of the API with key {key}, known "
                f"here are {known.oldest} to {known.newest}; one of the two must be upgraded"
            )
        return best

    def _write(self, key: int, version: int, body: Sequence[Buffer]) -> int:
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionFailed(f"connection to {self.peer} is not open")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        header = codec.request_header(key, version, correlation_id, self.client_id)
        size = len(header) + sum(map(len, body))
        if size > _SMALL_REQUEST:
            self._transport.writelines((_SIZE.pack(size) + header, *body))
        else:
            data = b"".join((_SIZE.pack(size), header, *body))
            sent = self._send_past_transport(data)
            if sent < len(data):
                self._transport.write(data[sent:])
        return correlation_id

    def _send_past_transport(self, data: bytes) -> int:
        """If nothing waits in it: the transport would send only after all that is done in this turn of the loop."""
        if self._socket is None or self._transport is None or self._transport.get_write_buffer_size():
            return 0
        try:
            return self._socket.send(data)
        except OSError:  # it is full, or broken: the transport knows what to do
            return 0

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class
        self._socket = socket_of(self._transport)

    def eof_received(self) -> None:
        """Told in the turn in which it comes: `connection_lost` is a turn later, and others ask in between."""
        self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error)
        if not self._closed.done():
            self._closed.set_result(None)

    def _end(self, error: Exception | None) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        if self._lost is None:
            reason = f": {error}" if error else "; a broker does so with what it cannot read or does not support"
            self._lost = ConnectionFailed(f"connection to {self.peer} was closed{reason}")
        self._writable.set()
        if self._socket is not None:
            self._socket.detach()  # it is the transport's
            self._socket = None
        while self._pending:
            answer = self._pending.popleft().answer
            if not answer.done():
                answer.set_exception(self._lost)
        if self.on_lost is not None:
            self.on_lost(self, self._lost)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None:
            return self._large[self._large_filled :]
        return self._small_view[self._filled :]

    def buffer_updated(self, count: int) -> None:
        if self._large is not None:
            self._large_filled += count
            if self._large_filled == len(self._large):
                frame, self._large = self._large, None
                self._answer(frame)
            return
        self._filled += count
        self._take_frames()

    def _take_frames(self) -> None:
        view, filled, position = self._small_view, self._filled, 0
        while filled - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if not 4 <= size <= LARGEST_ANSWER:
                self._fail(f"{self.peer} sent an answer of {size} bytes; is it a Kafka listener without TLS?")
                return
            start = position + 4
            if filled - start < size:
                if size > _RECEIVE_BUFFER - 4:
                    self._large = memoryview(bytearray(size))
                    self._large_filled = filled - start
                    self._large[: filled - start] = view[start:filled]
                    position = filled
                break
            position = start + size
            self._answer(memoryview(bytes(view[start:position])))
        if position:
            # to the front, so that the next answer finds all of the buffer free
            self._small[: filled - position] = view[position:filled].tobytes()
            self._filled = filled - position

    def _answer(self, frame: memoryview) -> None:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        if not self._pending:
            self._fail(f"{self.peer} answered what was not asked (correlation id {correlation_id})")
            return
        expected, key, version, answer = self._pending.popleft()
        if correlation_id != expected:
            if not answer.done():
                self._pending.appendleft(_Pending(expected, key, version, answer))
            self._fail(f"{self.peer} answered request {correlation_id}, expected was {expected}")
            return
        if answer.done():  # timed out or cancelled in the meantime
            return
        try:
            answer.set_result(frame.toreadonly()[codec.response_body_position(key, version, frame) :])
        except codec.MalformedRequest as error:
            answer.set_exception(ConnectionFailed(f"answer of {self.peer} cannot be read: {error}"))

    def _fail(self, reason: str) -> None:
        if self._lost is None:
            self._lost = ConnectionFailed(reason)
        if self._transport is not None:
            self._transport.abort()


def _known_versions(key: int) -> VersionRange | None:
    from kio.schema.index import api_key_map, schema_name_map

    name = api_key_map.get(key)
    if name is None:
        return None
    versions = schema_name_map[name]
    return VersionRange(min(versions), max(versions))
