"""A node of one's own as a real process, for tests that kill it, measure it or stop it like a user would.

with running_process(tmp_path, num_partitions=3) as node:
    producer = Producer({"bootstrap.servers": node.address})
    node.kill()                                       # kill -9: nothing is flushed or marked
    node.start()                                      # same port, same data

Where the node's insides matter and its death does not, `ottla.testing.node` is faster.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ottla.testing.apache_kafka import free_port

_UP: Final = " is up at "
_HOST: Final = "127.0.0.1"
_WITHIN_S: Final = 60.0


class NodeDied(Exception):
    """The node ended by itself; the message holds the end of its log."""


class NodeProcess:
    """`ottla up` on a fixed port and folder; may be started, killed and stopped again and again."""

    def __init__(self, folder: Path, **settings: str | int | bool) -> None:
        """Settings are broker configs with `_` for `.`."""
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.address = f"{_HOST}:{self.port}"
        self.log_file = folder / "node.log"
        self._settings = {name.replace("_", "."): _text(value) for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, within: float = _WITHIN_S) -> None:
        """Returns once the node serves."""
        self.begin_start()
        self.wait_until_up(within=within)

    def begin_start(self) -> None:
        """Starts the process and does not wait: `wait_until_up` does, or a kill in the middle of starting."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._begun_at = self.log_file.stat().st_size if self.log_file.exists() else 0
        given = [f"--set={name}={value}" for name, value in self._settings.items()]
        command = [sys.executable, "-m", "ottla.cli.main", "up", f"--port={self.port}", f"--data={self.data}", *given]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until_up(self, *, within: float = _WITHIN_S) -> None:
        deadline = time.monotonic() + within
        while True:
            told = self.log(since=self._begun_at)
            if _UP in told:
                break
            if not self.is_running:
                raise NodeDied(f"the node ended while it was starting:\n{told[-4000:]}")
            if time.monotonic() > deadline:
                self.kill()
                raise NodeDied(f"the node did not serve within {within:.0f} s:\n{told[-4000:]}")
            time.sleep(0.01)
        if f"{_UP}{self.address} " not in told:
            self.kill()
            raise NodeDied(f"somebody took port {self.port}:\n{told[-4000:]}")

    def kill(self) -> None:
        """kill -9: what the page cache holds survives, nothing is flushed or marked."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self, *, within: float = _WITHIN_S) -> None:
        """A clean stop, as by Ctrl-C; raises if the node does not end, or ends with an error."""
        process = self._running()
        process.terminate()
        try:
            code = process.wait(within)
        except subprocess.TimeoutExpired:
            self.kill()
            raise NodeDied(f"the node did not stop within {within:.0f} s:\n{self.log()[-4000:]}") from None
        if code:
            raise NodeDied(f"the node stopped with exit code {code}:\n{self.log()[-4000:]}")

    def log(self, *, since: int = 0) -> str:
        """What the node wrote to stdout and stderr, over all its lives; `since` counts bytes."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")

    def log_size(self) -> int:
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise NodeDied(f"the node is not running:\n{self.log()[-4000:]}")
        return self._process

    _begun_at: int = 0


@contextmanager
def running_process(folder: Path, **settings: str | int | bool) -> Iterator[NodeProcess]:
    """A node that serves; killed at the end, however the test went. `node.stop()` is for tests of a clean stop."""
    node = NodeProcess(folder, **settings)
    try:
        node.start()
        yield node
    finally:
        node.kill()


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
