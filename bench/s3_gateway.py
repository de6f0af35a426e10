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

from ottla.testing.apache_kafka import free_port, listening

BUCKET = "bench"
_KEY, _SECRET = "bench", "bench-secret"
_SMALL = 64 * 1024


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


async def _serve(near: int, far: int, seconds: float) -> None:
    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: float) -> None:
        """Of what is under way nothing waits for what was sent before it, as on a long line."""
        loop = asyncio.get_running_loop()
        line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(1024)

        async def deliver() -> None:
            while True:
                due, data = await line.get()
                if (left := due - loop.time()) > 0:
                    await asyncio.sleep(left)
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            writer.close()

        delivering = asyncio.ensure_future(deliver())
        try:
            while data := await reader.read(16 * _SMALL):
                await line.put((loop.time() + late, data))
        except OSError:
            pass
        await line.put((loop.time() + late, b""))
        await asyncio.gather(delivering, return_exceptions=True)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection("127.0.0.1", far, limit=32 * _SMALL)
        await asyncio.gather(pump(reader, to_there, seconds), pump(there, writer, 0.0))

    server = await asyncio.start_server(connected, "127.0.0.1", near, limit=32 * _SMALL)
    await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000))
