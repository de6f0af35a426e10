"""Committed metadata as this node knows it, whoever wrote it: the log up to the high watermark, as images and deltas.

    raft: high watermark   ->  read the log up to it, replay, publish (delta, image) to each subscriber, in order
    raft: a snapshot       ->  its image takes the place of what was known; the delta says what is different
    the active controller  ->  `offer`s what it has made of its own records: no need to replay them a second time

One step after the other: a subscriber with much to do gives the loop away, and the next step waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.metadata import loader, snapshot
from ottla.metadata.delta import MetadataDelta, Publisher
from ottla.metadata.difference import difference
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.transactions import Transactions
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.node import RaftNode
from ottla.raft.snapshot_format import Contents
from ottla.record.batch import parse_header

_log = logging.getLogger("ottla.metadata")
_BYTES_A_STEP: Final = 64 * 1024
_BYTES_WHILE_STARTING: Final = 16 * 1024 * 1024  # nobody is served yet; every step copies what it changes


class _Offer(NamedTuple):
    delta: MetadataDelta
    image: MetadataImage
    size: int
    timestamp_ms: int


class MetadataFeed:
    def __init__(self, env: Env, raft: RaftNode) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.published_offset = EMPTY_IMAGE.offset
        """Every subscriber has heard of what is up to here."""
        self.transactions = Transactions()
        """Open if what is committed ends within a metadata transaction."""
        self.timestamp_ms = 0
        """Of the last batch that the image holds."""
        self.bytes_taken_in = 0
        """Of the log, since the last snapshot or since this node started."""
        self.snapshots_loaded = 0
        self.on_published: list[Callable[[MetadataImage], None]] = []
        """Told after all subscribers."""
        self.on_failed: list[Callable[[BaseException], None]] = []
        self._env = env
        self._raft = raft
        self._publishers: list[Publisher] = []
        self._offers: deque[_Offer] = deque()
        self._snapshot: tuple[OffsetAndEpoch, Contents] | None = None
        self._goal = 0
        self._is_following = False
        self._turn = asyncio.Lock()
        self._tasks = Tasks(self._fail)

    async def subscribe(self, publisher: Publisher) -> None:
        """Tells the publisher all there is at once, then every change in order."""
        async with self._turn:
            self._publishers.append(publisher)
            await _tell(publisher, MetadataDelta.everything(self.image), self.image)

    async def start(self) -> None:
        """Before raft starts: begins with the latest snapshot on disk, if there is one."""
        self._raft.on_committed.append(self._committed)
        self._raft.on_snapshot.append(self._replaced)
        found = self._raft.latest_snapshot()
        if found is not None:
            await self._load(*found)

    async def stop(self) -> None:
        await self._tasks.stop()

    def offer(self, delta: MetadataDelta, image: MetadataImage, size: int, timestamp_ms: int) -> None:
        """What the active controller has made of a batch that it appended; used when that is committed."""
        self._offers.append(_Offer(delta, image, size, timestamp_ms))

    def drop_offers(self) -> None:
        """The controller is no longer active: what it made may never be committed."""
        self._offers.clear()

    async def reached(self, offset: int) -> None:
        """Until the subscribers know of the record at this offset."""
        if self.published_offset >= offset:
            return
        done: asyncio.Future[None] = self._env.loop.create_future()

        def published(image: MetadataImage) -> None:
            if image.offset >= offset and not done.done():
                done.set_result(None)

        def failed(error: BaseException) -> None:
            if not done.done():
                done.set_exception(error)

        self.on_published.append(published)
        self.on_failed.append(failed)
        try:
            await done
        finally:
            self.on_published.remove(published)
            self.on_failed.remove(failed)

    def _committed(self, high_watermark: int) -> None:
        self._goal = max(self._goal, high_watermark)
        self._follow()

    def _replaced(self, id: OffsetAndEpoch, contents: Contents) -> None:
        self._snapshot = id, contents
        self._follow()

    def _follow(self) -> None:
        if not self._is_following:
            self._is_following = True
            self._tasks.start(self._follow_until_level(), "metadata feed")

    async def _follow_until_level(self) -> None:
        try:
            while True:
                if self._snapshot is not None:
                    loaded, self._snapshot = self._snapshot, None
                    await self._load(*loaded)
                elif self.image.offset + 1 < self._goal:
                    await self._step()
                else:
                    break
        finally:
            self._is_following = False

    async def _step(self) -> None:
        async with self._turn:
            offer = self._fitting_offer()
            if offer is not None:
                self.transactions = Transactions()  # a controller never leaves one open at the end of a batch
                self._count(offer.size, offer.timestamp_ms)
                await self._publish(offer.delta, offer.image)
                return
            delta = MetadataDelta(self.image)
            await self._publish(delta, self._replay(delta))

    def _fitting_offer(self) -> _Offer | None:
        while self._offers and self._offers[0].image.offset <= self.image.offset:
            self._offers.popleft()
        if self._offers and self._offers[0].delta.base is self.image and self._offers[0].image.offset < self._goal:
            return self._offers.popleft()
        return None

    def _replay(self, delta: MetadataDelta) -> MetadataImage:
        begin = self.image.offset + 1
        batches = []
        most = _BYTES_A_STEP if self._publishers else _BYTES_WHILE_STARTING
        for data in self._raft.log.read(begin, most):
            header = parse_header(data)
            if header.last_offset >= self._goal:
                break
            if header.last_offset >= begin:
                batches.append(memoryview(data))
                self._count(len(data), header.max_timestamp)
        if not batches:
            raise AssertionError(f"offset {begin} is committed below {self._goal}, but not in the metadata log")
        return loader.replay(batches, delta, self.transactions)

    def _count(self, size: int, timestamp_ms: int) -> None:
        self.bytes_taken_in += size
        self.timestamp_ms = max(self.timestamp_ms, timestamp_ms)

    async def _load(self, id: OffsetAndEpoch, contents: Contents) -> None:
        async with self._turn:
            if id.offset <= self.image.offset + 1:
                return
            image = await snapshot.load_in_slices(contents, id)
            self.transactions = Transactions()
            self.snapshots_loaded += 1
            self.timestamp_ms, self.bytes_taken_in = contents.last_contained_timestamp, 0
            _log.info("The metadata at offset %d comes from a snapshot", image.offset)
            await self._publish(difference(self.image, image), image)

    async def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.image = image
        for publisher in list(self._publishers):
            await _tell(publisher, delta, image)
        self.published_offset = image.offset
        for hears in list(self.on_published):
            hears(image)

    def _fail(self, error: BaseException) -> None:
        _log.error("The metadata cannot be followed any further: %s", error, exc_info=error)
        for hears in list(self.on_failed):
            hears(error)


async def _tell(publisher: Publisher, delta: MetadataDelta, image: MetadataImage) -> None:
    try:
        work = publisher(delta, image)
        if work is not None:
            await work
    except Exception:
        # A mistake in one part of the node must not keep the others, or the quorum, from what is committed.
        _log.exception("%r could not take over the metadata at offset %d", publisher, image.offset)
