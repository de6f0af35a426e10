"""What must reach the disk with the next flush besides the newest batches: names, small files, rolled segments.

Changes are numbered. A flush makes durable all up to the number at which it began, and says so when it is done: two
flushes that overlap both do the work, so that whichever ends first may be believed.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable
from contextlib import suppress

from ottla.env.files import sync_file
from ottla.env.ports import Disk
from ottla.log.segment import Segment


class Unsynced:
    def __init__(self, disk: Disk, folder: str, *, is_synced: bool = False) -> None:
        self._disk = disk
        self._folder = folder
        self.changes = 1  # the folder itself, and all that is in it, may be new
        self._synced = 1 if is_synced else 0
        self._names = 1
        self._files: dict[str, int] = {}
        self._rolled: dict[Segment, int] = {}

    @property
    def synced(self) -> int:
        """The number up to which all changes are durable."""
        return self._synced

    @property
    def pending(self) -> bool:
        return self.changes > self._synced

    def _next(self) -> int:
        self.changes += 1
        return self.changes

    def names_changed(self) -> None:
        self._names = self._next()

    def file_replaced(self, path: str) -> None:
        self._names = self._files[path] = self._next()

    def segment_rolled(self, segment: Segment) -> None:
        self._rolled[segment] = self._next()

    def forget(self) -> list[Segment]:
        """Drops what is durable by now; gives the rolled segments among it."""
        synced = self._synced
        self._files = {path: number for path, number in self._files.items() if number > synced}
        done = [segment for segment, number in self._rolled.items() if number <= synced]
        for segment in done:
            del self._rolled[segment]
        return done

    def job(self) -> Callable[[], None]:
        """What blocks, for the executor."""
        upto, synced = self.changes, self._synced
        segments = [segment for segment, number in self._rolled.items() if number > synced]
        files = [path for path, number in self._files.items() if number > synced]
        names, is_first = self._names > synced, synced == 0
        disk, folder = self._disk, self._folder

        def job() -> None:
            for segment in segments:
                segment.sync()
            for path in files:
                with suppress(FileNotFoundError):  # retention has removed it meanwhile
                    sync_file(disk, path)
            if names:
                disk.sync_dir(folder)
            if is_first:
                disk.sync_dir(os.path.dirname(folder))
            if upto > self._synced:
                self._synced = upto

        return job
