"""A small file that is replaced now and then, off the loop: the newest content wins, writes stay in order."""

from __future__ import annotations

import asyncio
import logging

from ottla.env.files import write_atomically
from ottla.env.ports import Env

_log = logging.getLogger("ottla.log")


class BackgroundFile:
    def __init__(self, env: Env, path: str) -> None:
        self._env = env
        self._path = path
        self._next: bytes | None = None
        self._writing: asyncio.Future[None] | None = None

    def put(self, data: bytes) -> None:
        self._next = data
        if self._writing is None:
            self._write(data)

    def _write(self, data: bytes) -> None:
        self._next = None
        self._writing = self._env.executor.blocking(write_atomically, self._env.disk, self._path, data)
        self._writing.add_done_callback(self._done)

    def _done(self, future: asyncio.Future[None]) -> None:
        self._writing = None
        if (error := future.exception()) is not None:
            _log.error("%s could not be written: %s", self._path, error)
        if self._next is not None:
            self._write(self._next)

    async def settle(self) -> None:
        """Until all that was put is on disk."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
            await asyncio.sleep(0)
