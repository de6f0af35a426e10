"""Answers that hold ranges of files, over real sockets: whichever way the bytes take, they are the same."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from functools import partial
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest
import uvloop

from ottla.broker.run import real_env
from ottla.env.disk import DiskTimes, PosixDisk, PosixFile
from ottla.wire.buffers import BufferPool
from ottla.wire.connection_settings import ConnectionSettings
from ottla.wire.reply import FileRange, Message
from ottla.wire.server import ServerConnection

REQUEST = (4).to_bytes(4, "big") + b"ask!"
SIZES = (3_000_000, 40_000, 100, 1_000_000, 32 * 1024)
QUESTIONS = 5
CONTENT_SIZE = 3_500_000


def exchange(path: Path, pauses: float, receive_buffer: int) -> bytes:
    """What a client gets that asks several times at once, and reads as slowly as it is told to."""

    async def story() -> bytes:
        file = PosixDisk().open(str(path))

        def handler(connection: ServerConnection, frame: memoryview) -> Message:
            return [part for size in SIZES for part in (b"<%d>" % size, FileRange(file, 7, size))] + [b"</>"]

        env = real_env()
        settings = ConnectionSettings(handler, env, BufferPool(1 << 20), 1 << 20)
        listener = await env.network.listen(partial(ServerConnection, settings, "PLAINTEXT"), "127.0.0.1", 0)
        await listener.serve()
        got = await asyncio.to_thread(ask, listener.port, pauses, receive_buffer)
        listener.close()
        env.executor.close()
        return got

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(story(), 60))


def ask(port: int, pauses: float, receive_buffer: int) -> bytes:
    got = bytearray()
    with socket.socket() as sock:
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(60)
        sock.connect(("127.0.0.1", port))
        sock.sendall(REQUEST * QUESTIONS)
        while len(got) < QUESTIONS * len(answer_of(bytes(CONTENT_SIZE))):
            data = sock.recv(300_000)
            assert data, "the connection was closed"
            got += data
            time.sleep(pauses)
    return bytes(got)


def answer_of(content: bytes) -> bytes:
    return b"".join(b"<%d>" % size + content[7 : 7 + size] for size in SIZES) + b"</>"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data").write_bytes(Random(1).randbytes(CONTENT_SIZE))
    return tmp_path / "data"


@pytest.mark.parametrize(("pauses", "receive_buffer"), [(0, 0), (0.002, 0), (0, 16_384), (0.01, 200_000)])
def test_the_bytes_are_those_of_the_file(path: Path, pauses: float, receive_buffer: int) -> None:
    assert exchange(path, pauses, receive_buffer) == answer_of(path.read_bytes()) * QUESTIONS


def test_most_of_them_go_past_the_transport(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, send = [0], PosixFile.send_nowait

    def counted(file: PosixFile, socket: int, size: int, position: int) -> int:
        sent[0] += (done := send(file, socket, size, position))
        return done

    monkeypatch.setattr(PosixFile, "send_nowait", counted)
    answer = answer_of(path.read_bytes()) * QUESTIONS
    assert exchange(path, 0, 0) == answer
    if not sent[0]:
        pytest.skip("this kernel has no cachestat (Linux 6.5)")
    assert sent[0] > len(answer) / 2


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_what_cannot_go_directly_is_read_and_written(path: Path, monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    random, send = Random(2), PosixFile.send_nowait

    def sometimes(file: PosixFile, socket: int, size: int, position: int) -> int:
        return send(file, socket, random.randrange(1, size), position) if random.random() < share else 0

    monkeypatch.setattr(PosixFile, "send_nowait", sometimes)
    assert exchange(path, 0.001, 0) == answer_of(path.read_bytes()) * QUESTIONS


class Slow(PosixFile):
    """Of which a piece at a time is sent."""

    gives_way: ClassVar[bool] = True

    def send_nowait(self, socket: int, size: int, position: int) -> int:
        sent = os.write(socket, self.pread(min(size, 64 * 1024), position))
        pieces.append(sent)
        return sent


pieces: list[int] = []


def test_who_gives_way_lets_others_have_their_turn_after_each_piece(path: Path) -> None:
    """A request of another connection that comes while an answer is sent is answered before the next piece."""
    asked_after: list[int] = []

    async def story() -> None:
        file = Slow(str(path), os.open(path, os.O_RDONLY), DiskTimes())

        def handler(connection: ServerConnection, frame: memoryview) -> Message:
            if bytes(frame).startswith(b"old?"):
                return [b"<", FileRange(file, 0, CONTENT_SIZE), b">"]
            asked_after.append(len(pieces))
            return [b"now!"]

        env = real_env()
        settings = ConnectionSettings(handler, env, BufferPool(1 << 20), 1 << 20)
        listener = await env.network.listen(partial(ServerConnection, settings, "PLAINTEXT"), "127.0.0.1", 0)
        await listener.serve()
        old, new = [await asyncio.open_connection("127.0.0.1", listener.port, limit=1 << 23) for _ in range(2)]
        old[1].write((4).to_bytes(4, "big") + b"old?")
        for _ in range(5):
            new[1].write((4).to_bytes(4, "big") + b"new?")
            assert await new[0].readexactly(4) == b"now!"
        assert len(await old[0].readexactly(CONTENT_SIZE + 2)) == CONTENT_SIZE + 2
        for _, writer in (old, new):
            writer.close()
        listener.close()
        env.executor.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(story(), 60))
    assert len(asked_after) == 5
    assert asked_after[-1] < len(pieces), "the last of them came while there was still something to send"
