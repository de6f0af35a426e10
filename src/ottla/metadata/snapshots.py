"""Takes snapshots of the metadata while a node runs, and lets go of the log and of old snapshots.

As in Kafka every node does so for itself, controller or not: after so many bytes of records, or after a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final

from ottla.env.ports import Disk, Env
from ottla.env.tasks import Tasks
from ottla.metadata import snapshot
from ottla.metadata.feed import MetadataFeed
from ottla.metadata.image import MetadataImage
from ottla.metadata.snapshot import Surroundings
from ottla.raft.node import RaftNode
from ottla.raft.retention import Retention

_log = logging.getLogger("ottla.metadata")
_LOOK_EVERY_S: Final = 60.0
_DEFAULT_RETENTION: Final = Retention()


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    max_bytes: int = 20 << 20
    """Of records since the last one."""
    max_interval_ms: int = 3_600_000
    """Since the last one; 0 for no such limit."""
    retention: Retention = _DEFAULT_RETENTION
    delete_delay_ms: int = 60_000


class Snapshots:
    def __init__(self, env: Env, raft: RaftNode, feed: MetadataFeed, settings: SnapshotSettings) -> None:
        self.latest_bytes = 0
        """Of the last that was made here since the start."""
        self._taken_at = 0.0
        self._env = env
        self._raft = raft
        self._feed = feed
        self._settings = settings
        self._since = 0.0
        self._is_busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._to_remove: dict[asyncio.TimerHandle, list[str]] = {}
        self._tasks = Tasks(lambda error: _log.error("No snapshot of the metadata could be taken: %s", error))

    def start(self) -> None:
        self._since = self._taken_at = self._env.loop.time()
        self._feed.on_published.append(self._look)
        self._timer = self._env.loop.call_later(self._look_every_s, self._look_again)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for handle in self._to_remove:  # what is marked goes at the next start
            handle.cancel()
        await self._tasks.stop()

    @property
    def age_ms(self) -> int:
        """Since the last was taken, or since the start, as Kafka counts it."""
        return int((self._env.loop.time() - self._taken_at) * 1000)

    @property
    def _look_every_s(self) -> float:
        interval = self._settings.max_interval_ms / 1000
        return min(_LOOK_EVERY_S, interval) if interval else _LOOK_EVERY_S

    def _look_again(self) -> None:
        self._timer = self._env.loop.call_later(self._look_every_s, self._look_again)
        self._look(self._feed.image)
        self._work(self._clean())

    def _look(self, image: MetadataImage) -> None:
        """Not within a metadata transaction: its first records are in no image yet, and would be lost with the log."""
        reason = self._reason()
        if reason is not None and not self._is_busy and image.offset >= 0 and not self._feed.transactions.is_open:
            self._work(self._take(image, reason))

    def _reason(self) -> str | None:
        """Why it is time for one; None if it is not."""
        settings, taken_in = self._settings, self._feed.bytes_taken_in
        if taken_in >= settings.max_bytes:
            return f"{taken_in} bytes of records came since the last one"
        waited_ms = (self._env.loop.time() - self._since) * 1000
        if settings.max_interval_ms and waited_ms >= settings.max_interval_ms and taken_in:
            return f"the last one was {waited_ms / 1000:.0f} s ago"
        return None

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        if self._is_busy:
            work.close()
            return
        self._is_busy = True
        self._tasks.start(work, "metadata snapshot").add_done_callback(self._worked)

    def _worked(self, _: object) -> None:
        self._is_busy = False

    async def _take(self, image: MetadataImage, reason: str) -> None:
        """Of an image that nothing changes any more: what is published meanwhile is for the next one."""
        began = self._env.clock.elapsed()
        id = snapshot.id_of(image)
        timestamp_ms = self._feed.timestamp_ms
        self._feed.bytes_taken_in, self._since = 0, self._env.loop.time()
        if id not in self._raft.snapshot_ids:
            known = Surroundings(timestamp_ms, *self._raft.voters_at(image.offset))
            now_ms = self._env.clock.now_ms()
            await self._raft.write_snapshot(id, snapshot.encode_pieces(image, now_ms, known))
            self.latest_bytes, self._taken_at = self._raft.snapshot_size(id), self._env.loop.time()
            took = self._env.clock.elapsed() - began
            _log.info("A snapshot of the metadata at offset %d was taken in %.1f s: %s", id.offset, took, reason)
        await self._clean()

    async def _clean(self) -> None:
        paths = await self._raft.clean(self._settings.retention)
        if paths:
            handle = self._env.loop.call_later(self._settings.delete_delay_ms / 1000, self._remove, paths)
            self._to_remove[handle] = paths

    def _remove(self, paths: list[str]) -> None:
        self._to_remove = {handle: kept for handle, kept in self._to_remove.items() if kept is not paths}
        self._tasks.start(self._remove_files(paths), "remove metadata files")

    async def _remove_files(self, paths: list[str]) -> None:
        await self._env.executor.blocking(_remove_files, self._env.disk, paths)


def _remove_files(disk: Disk, paths: list[str]) -> None:
    for path in paths:
        if disk.exists(path):
            disk.remove(path)
