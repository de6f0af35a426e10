"""Sends bodies to a server and tells what came of each: an answer, nothing, or the end of the connection.

Behind every request goes a ping, a question that is always answered. Its answer is the sign that there will be none to
the request: Kafka answers in order, and so do we. A connection that was closed is made anew.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final
from uuid import UUID

from tests.corpus.scenarios.scenario import SESSION

from ottla.wire.codec import MalformedRequest, decode_request, request_header, response_body_position

_REQUEST, _PING = 1001, 2002  # correlation ids
_API_VERSIONS: Final = 18
_FETCH: Final = 1
_SESSION: Final = SESSION.to_bytes(4, "big")
_SESSIONS_SINCE: Final = 7
_RECEIVE: Final = 1 << 18


class Ending(Enum):
    """What there is instead of an answer."""

    CLOSED = "closed"  # the connection
    SILENT = "silent"  # and the next request was answered
    WAITS = "waits"  # longer than the player
    GARBLED = "garbled"  # an answer to nothing that was asked


@dataclass(slots=True)
class Player:
    """`ids` are what stands for the server's ids in the corpus, and those ids, of the same length."""

    port: int
    ids: Mapping[bytes, bytes]
    patience_s: float = 5.0
    _socket: socket.socket | None = None
    _session: bytes | None = None
    _follows_sessions: bool = True
    _buffer: bytes = b""

    def __enter__(self) -> Player:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.hang_up()

    def play(self, key: int, version: int, body: bytes) -> bytes | Ending:
        """The answer's body, with the corpus's ids instead of the server's."""
        body = self._with_real_ids(key, version, body)
        if key == _FETCH and self._session is not None:
            body = body.replace(_SESSION, self._session)
        try:
            answer = self._exchange(framed(key, version, body))
            if isinstance(answer, Ending):
                return answer
            data = answer[response_body_position(key, version, answer) :]
        except TimeoutError:
            self.hang_up()
            return Ending.WAITS
        except ConnectionError:
            self.hang_up()
            return Ending.CLOSED
        for stand_in, real in self.ids.items():
            if real in data:
                data = data.replace(real, stand_in)
        if (
            self._follows_sessions
            and key == _FETCH
            and version >= _SESSIONS_SINCE
            and (opened := data[6:10]) != bytes(4)
        ):
            self._session = opened
        return data

    def leave_sessions(self) -> None:
        """From now on what stands for one is just a number."""
        self._follows_sessions, self._session = False, None

    def _with_real_ids(self, key: int, version: int, body: bytes) -> bytes:
        """Exchanges ids only where they are read as such: elsewhere their bytes would mean another thing each time."""
        found = [stand_in for stand_in in self.ids if stand_in in body]
        if not found:
            return body
        try:
            text = repr(decode_request(key, version, body))
        except MalformedRequest:
            return body
        for stand_in in found:
            written = repr(UUID(bytes=stand_in)) if len(stand_in) == 16 else stand_in.decode()
            if text.count(written) == body.count(stand_in):
                body = body.replace(stand_in, self.ids[stand_in])
        return body

    def hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def _exchange(self, frame: bytes) -> bytes | Ending:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), timeout=self.patience_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(frame + PING)
        answer: bytes | Ending = Ending.SILENT
        while True:
            received = self._receive()
            correlation = int.from_bytes(received[:4], "big", signed=True)
            if correlation == _PING:
                return answer
            answer = received if correlation == _REQUEST else Ending.GARBLED

    def _receive(self) -> bytes:
        assert self._socket is not None
        while len(self._buffer) < 4 or len(self._buffer) < 4 + int.from_bytes(self._buffer[:4], "big"):
            piece = self._socket.recv(_RECEIVE)
            if not piece:
                raise ConnectionResetError
            self._buffer += piece
        end = 4 + int.from_bytes(self._buffer[:4], "big")
        frame, self._buffer = self._buffer[4:end], self._buffer[end:]
        return frame


def framed(key: int, version: int, body: bytes, correlation_id: int = _REQUEST) -> bytes:
    data = request_header(key, version, correlation_id, "corpus") + body
    return len(data).to_bytes(4, "big") + data


PING: Final = framed(_API_VERSIONS, 0, b"", _PING)
