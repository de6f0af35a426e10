"""An S3 server with real files (versitygw, of which `OTTLA_VERSITYGW` may name the program), and the way to it, which
may be a long one."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from ottla.testing.apache_kafka import free_port, listening

BUCKET = "bench"
_KEY, _SECRET = "bench", "bench-secret"


class NoGateway(RuntimeError):
    pass


@contextmanager
def gateway(folder: Path) -> Iterator[int]:
    """Gives its port. The bucket is there."""
    program = os.environ.get("OTTLA_VERSITYGW") or shutil.which("versitygw")
    if program is None:
        raise NoGateway(
            "versitygw is not here: `go install github.com/versity/versitygw/cmd/versitygw@latest`, or name the "
            "program in OTTLA_VERSITYGW"
        )
    (folder / BUCKET).mkdir(parents=True)
    port = free_port()
    command = [program, "--access", _KEY, "--secret", _SECRET, "--port", f"127.0.0.1:{port}", "posix", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process, "versitygw")
        yield port
    finally:
        process.kill()
        process.wait()


def settings(port: int) -> dict[str, str]:
    """The configs of a node for the store behind a port."""
    return {
        "rsm.config.url": f"s3://{BUCKET}/cluster",
        "rsm.config.aws.endpoint": f"http://127.0.0.1:{port}",
        "rsm.config.aws.region": "us-east-1",
        "rsm.config.aws.access.key.id": _KEY,
        "rsm.config.aws.secret.access.key": _SECRET,
    }


@contextmanager
def long_way(port: int, milliseconds: int) -> Iterator[int]:
    """A port behind which the other one lies; whatever is sent to it takes so much longer."""
    near = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.s3_gateway", str(near), str(port), str(milliseconds)])
    try:
        _wait_for(near, process, "the long way")
        yield near
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes], what: str) -> None:
    deadline = time.monotonic() + 20
    while not listening(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoGateway(f"{what} does not listen on port {port}")
        time.sleep(0.02)


class _End(asyncio.Protocol):
    """One end of the way. What comes in goes out at the other end after a while, and nothing of it waits for what was
    sent before it, as on a long line. Handed on as it came: the line must not need a processor that is being measured.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self.other: _End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its type
        for data in self._early:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        assert self.other is not None
        if self._seconds:
            asyncio.get_running_loop().call_later(self._seconds, self.other.send, data)
        else:
            self.other.send(data)

    def send(self, data: bytes) -> None:
        if self._transport is None:
            self._early.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self.other is not None:
            asyncio.get_running_loop().call_later(self._seconds, self.other.close)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def _serve(near: int, far: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    connecting: set[asyncio.Task[object]] = set()

    def connected() -> _End:
        here, there = _End(seconds), _End(0.0)
        here.other, there.other = there, here
        task = asyncio.ensure_future(loop.create_connection(lambda: there, "127.0.0.1", far))
        connecting.add(task)
        task.add_done_callback(connecting.discard)
        return here

    server = await loop.create_server(connected, "127.0.0.1", near)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000))
