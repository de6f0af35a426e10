"""The file in a data folder that says which process runs there.

The process holds a lock on it as long as it lives, so that a file left behind by kill -9, or a pid that meanwhile
belongs to another process, is never mistaken for a running node.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path
from typing import Final, NamedTuple

NAME: Final = "ottla.pid"


class Running(NamedTuple):
    pid: int
    address: str


class PidFile:
    """Held by the running node; `take` gives None if another one holds it."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._is_ours = True

    @classmethod
    def take(cls, folder: Path) -> PidFile | None:
        path = folder / NAME
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            if not _lock(fd):
                os.close(fd)
                return None
            if path.exists() and os.path.samestat(os.fstat(fd), path.stat()):
                return cls(path, fd)
            os.close(fd)  # removed by a node that stopped between our open and our lock

    def write(self, pid: int, address: str) -> None:
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{pid}\n{address}\n".encode(), 0)

    def remove(self) -> None:
        """The lock stays until the process has ended, which is what `stop` waits for."""
        if self._is_ours:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """In the parent of a detached node: the child keeps the lock, and the file, whatever happens here."""
        self._is_ours = False
        os.close(self._fd)


def running(folder: Path) -> Running | None:
    """The node of a data folder, or None if none runs there."""
    try:
        fd = os.open(folder / NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _lock(fd):
            return None
        pid, _, address = os.pread(fd, 4096, 0).decode().strip().partition("\n")
        return Running(int(pid), address) if pid else None
    finally:
        os.close(fd)


def stop(folder: Path, seconds: float) -> bool:
    """Sends SIGTERM to the node of a folder and waits until its process has ended; False if it has not in time."""
    try:
        fd = os.open(folder / NAME, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        pid = os.pread(fd, 4096, 0).split()
        if _lock(fd) or not pid:
            return True
        try:
            os.kill(int(pid[0]), signal.SIGTERM)
        except ProcessLookupError:
            pass  # it has just ended by itself
        deadline = time.monotonic() + seconds
        while not _lock(fd):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
