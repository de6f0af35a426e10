"""A small file that is replaced now and then, off the loop: the newest content wins, writes stay in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from threading import Lock

from ottla.env.files import is_shortage, write_atomically
from ottla.env.ports import Env

_log = logging.getLogger("ottla.log")


class BackgroundFile:
    def __init__(self, env: Env, path: str, on_error: Callable[[OSError], None] | None = None) -> None:
        self.put_count = 0
        self.on_disk = 0
        """Which `put` is on disk, counted from 1."""
        self._env = env
        self._path = path
        self._on_error = on_error
        self._next: Callable[[], bytes] | None = None
        self._writing: asyncio.Future[None] | None = None
        self._lock = Lock()  # held by whoever writes: a thread, or the loop in `put_now`

    def put(self, content: Callable[[], bytes]) -> int:
        """Begins to write; gives the number that `on_disk` will have reached when this content is there.

        The content is asked for when the writing begins: many changes at once are written once.
        """
        self.put_count += 1
        self._next = content
        if self._writing is None:
            self._write(content)
        return self.put_count

    def put_now(self, data: bytes) -> None:
        """Blocking. For the rare moment that must not go on before the content is durable."""
        self.put_count += 1
        self._next = None
        self._replace(data, self.put_count)

    def _write(self, content: Callable[[], bytes]) -> None:
        self._next = None
        self._writing = self._env.executor.blocking(self._replace, content(), self.put_count)
        self._writing.add_done_callback(self._done)

    def _replace(self, data: bytes, number: int) -> None:
        with self._lock:
            if number > self.on_disk:
                write_atomically(self._env.disk, self._path, data)
                self.on_disk = number

    def _done(self, future: asyncio.Future[None]) -> None:
        self._writing = None
        if (error := future.exception()) is not None:
            _log.error("%s could not be written: %s", self._path, error)
            if isinstance(error, OSError) and is_shortage(error):
                return  # the next `put` tries again
            if self._on_error is not None and isinstance(error, OSError):
                self._next = None  # the disk that it would go to has failed
                self._on_error(error)
        if self._next is not None:
            self._write(self._next)

    async def settle(self) -> None:
        """Until all that was put is on disk."""
        while self._writing is not None:
            await asyncio.wait([self._writing])
            await asyncio.sleep(0)
