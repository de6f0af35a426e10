"""A connection's own limits, with a transport that takes nothing and a handler that counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until_on_loop

from ottla.broker.run import real_env
from ottla.env.disk import PosixDisk
from ottla.wire import server
from ottla.wire.buffers import BufferPool
from ottla.wire.connection_settings import SCRATCH_BYTES, ConnectionSettings
from ottla.wire.reply import FileRange, Later, Message
from ottla.wire.server import MAX_HELD_BYTES, MAX_UNSENT_BYTES, ServerConnection

REQUEST = (4).to_bytes(4, "big") + b"ask!"


class Transport(asyncio.Transport):
    """Keeps what is written; `drain` is the peer that reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.unread = 0
        self.reads = True
        self.protocol: ServerConnection | None = None
        self.is_paused = False
        self._high = 64 * 1024

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self._high = high

    def get_write_buffer_size(self) -> int:
        return self.unread

    def write(self, data: Any) -> None:
        self.written += data
        self.unread += len(data)
        if self.unread > self._high and not self.is_paused and self.protocol is not None:
            self.is_paused = True
            self.protocol.pause_writing()

    def drain(self) -> None:
        self.unread = 0
        if self.is_paused and self.protocol is not None:
            self.is_paused = False
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def abort(self) -> None:
        raise AssertionError("the connection was aborted")


def connect(handler: Callable[[ServerConnection, memoryview], Message | Later]) -> tuple[ServerConnection, Transport]:
    settings = ConnectionSettings(handler, real_env(), BufferPool(1 << 20), 1 << 20)
    connection, transport = ServerConnection(settings, "PLAINTEXT"), Transport()
    transport.protocol = connection
    connection.connection_made(transport)
    return connection, transport


def receive(connection: ServerConnection, data: bytes) -> None:
    buffer = connection.get_buffer(-1)
    buffer[: len(data)] = data
    connection.buffer_updated(len(data))


def test_long_answers_are_handed_on_before_the_next_question_is_looked_at() -> None:
    async def story() -> None:
        answered = 0

        def handler(connection: ServerConnection, frame: memoryview) -> Message:
            nonlocal answered
            answered += 1
            return b"a" * 20_000

        connection, transport = connect(handler)
        receive(connection, REQUEST * 1000)
        # not more than what the peer may leave unread, and what is collected before it is handed on
        assert answered * 20_000 <= MAX_UNSENT_BYTES + 2 * 20_000
        assert not transport.reads
        # when it reads, all is answered
        while answered < 1000:
            before = answered
            transport.drain()
            await asyncio.sleep(0)
            assert answered > before
        transport.drain()
        assert len(transport.written) == 1000 * 20_000 and transport.reads

    asyncio.run(story())


def test_one_who_went_after_its_turn_was_postponed_is_noticed_while_its_answer_is_awaited() -> None:
    async def story() -> None:
        awaited = Later()
        connection, transport = connect(lambda connection, frame: awaited)
        connection.mute(0)  # as if so many had come at once that others have to wait
        receive(connection, REQUEST)
        assert not transport.reads
        await until_on_loop(lambda: connection.awaits_answers and transport.reads)
        # what it asks meanwhile is kept, and handled after the first
        receive(connection, REQUEST)
        assert not transport.reads

    asyncio.run(story())


def test_answers_behind_one_that_is_awaited_are_not_piled_up() -> None:
    async def story() -> None:
        first, answered = Later(overlaps=True), 0

        def handler(connection: ServerConnection, frame: memoryview) -> Message | Later:
            nonlocal answered
            answered += 1
            return first if answered == 1 else answered.to_bytes(4, "big") * 5000

        connection, transport = connect(handler)
        receive(connection, REQUEST * 200)
        assert (answered - 1) * 20_000 <= MAX_HELD_BYTES + 20_000
        assert not transport.written
        # when it is there, they follow it in their order
        first.complete((1).to_bytes(4, "big") * 5000)
        while answered < 200 or transport.is_paused:
            transport.drain()
            await asyncio.sleep(0)
        order = [int.from_bytes(transport.written[at : at + 4], "big") for at in range(0, 200 * 20_000, 20_000)]
        assert order == list(range(1, 201))

    asyncio.run(story())


def test_a_thousand_answers_from_files_behind_one_that_is_awaited_are_sent_one_after_the_other(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        first, count = Later(overlaps=True), 0
        (tmp_path / "data").write_bytes(b"0123456789")
        file = PosixDisk().open(str(tmp_path / "data"))

        def handler(connection: ServerConnection, frame: memoryview) -> Message | Later:
            nonlocal count
            count += 1
            return first if count == 1 else [b"<", FileRange(file, 0, 10), b">"]

        connection, transport = connect(handler)
        asked = min(1000, SCRATCH_BYTES // len(REQUEST))
        receive(connection, REQUEST * asked)
        first.complete(b"first")
        while len(transport.written) < 5 + 12 * (asked - 1):
            before = len(transport.written)
            for _ in range(10):  # turns of the loop
                transport.drain()
                await asyncio.sleep(0.0001)
            assert len(transport.written) > before
        assert bytes(transport.written) == b"first" + b"<0123456789>" * (asked - 1)

    asyncio.run(story())


def test_what_a_client_does_not_read_is_counted_and_given_up_when_memory_is_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "STALL_SECONDS", 10.0)

    async def story() -> None:
        connection, transport = connect(lambda connection, frame: b"a" * 100_000)
        pool, settings = connection.pool, connection._settings
        aborted: list[bool] = []
        transport.abort = lambda: aborted.append(True)  # type: ignore[method-assign]
        receive(connection, REQUEST)
        assert pool.lent == 100_000
        transport.drain()
        assert pool.lent == 0
        receive(connection, REQUEST)
        later = asyncio.get_running_loop().time() + 11
        settings.close_stalled(later)
        assert not aborted  # there is room
        pool.wait(1 << 20, lambda buffer: None)
        settings.close_stalled(later - 5)
        assert not aborted  # it may still come to it
        settings.close_stalled(later)
        assert aborted
        connection.connection_lost(None)
        assert pool.lent == 1 << 20  # what was waited for has come

    asyncio.run(story())


def test_a_connection_that_is_closing_can_still_be_given_up() -> None:
    """It waits for a client to read what was answered, which may never be."""

    async def story() -> None:
        connection, transport = connect(lambda connection, frame: b"a" * 100_000)
        ended: list[str] = []
        transport.abort = lambda: ended.append("abort")  # type: ignore[method-assign]
        transport.close = lambda: ended.append("close")  # type: ignore[method-assign]
        receive(connection, REQUEST)
        connection.close()
        assert ended == ["close"] and connection.is_closing
        connection.give_up()
        assert ended == ["close", "abort"]

    asyncio.run(story())


def test_only_what_was_counted_is_taken_off_the_count() -> None:
    async def story() -> None:
        waiting = [Later(overlaps=True), Later(overlaps=True)]
        answers: list[Message | Later] = [waiting[0], b"b" * 1000, waiting[1], b"d" * 5000]
        connection, _ = connect(lambda connection, frame: answers.pop(0))
        receive(connection, REQUEST * 4)
        assert connection._held_bytes == 6000
        waiting[0].complete(b"a" * 3000)  # which nobody has counted
        assert connection._held_bytes == 5000
        waiting[1].complete(b"c" * 9000)
        assert connection._held_bytes == 0

    asyncio.run(story())
