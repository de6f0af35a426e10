"""A listener that plays a node: it counts its connections, answers by a function, and can be shut and opened again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from kio.schema.api_versions.v4 import response as v4
from kio.schema.errors import ErrorCode

from ottla.wire import codec
from ottla.wire.build import build

Handler = Callable[[Any], Any]


class Listening:
    """`handle` gets the decoded request and gives the response entity; None hangs up, a future is waited for."""

    def __init__(self, handle: Handler, offers: Mapping[int, tuple[int, int]]) -> None:
        self.handle = handle
        self.opened = 0
        self.port = 0
        self._offers = offers
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self._writers.append(writer)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header = codec.parse_request_header(frame)
                answer = self._versions()
                if header.key != codec.API_VERSIONS:
                    answer = self.handle(codec.decode_request(header.key, header.version, frame[header.body :]))
                if asyncio.isfuture(answer):
                    answer = await answer
                if answer is None:
                    break
                writer.write(codec.response_frame(header.correlation_id, answer))
        writer.close()

    def _versions(self) -> Any:
        keys = [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in self._offers.items()]
        values = {"error_code": ErrorCode.none, "api_keys": keys, "throttle_time": timedelta(0)}
        return build(v4.ApiVersionsResponse, values)
