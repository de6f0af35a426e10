"""Reads of offsets that are no longer on this disk: for Fetch, for ListOffsets by time, and for new followers.

Errors of the store are told to whoever reads as KAFKA_STORAGE_ERROR, after which clients ask again; an object that is
not what was put there is CORRUPT_MESSAGE, as a damaged file is.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.tier.beginning import begin_where_the_tier_does, is_told_of
from ottla.broker.tier.metadata_topic import TierMetadata
from ottla.broker.tier.quota import FETCH, TierQuota
from ottla.env.object_store import HasThreads, ObjectStore, StoreError
from ottla.log.txn_index import AbortedTxn
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Isolation, Partition
from ottla.tier.chunks import Chunks
from ottla.tier.manifest import DamagedObject
from ottla.tier.reader import SegmentReader
from ottla.tier.remote_log import RemoteLog
from ottla.tier.remote_segment import RemoteSegment
from ottla.tier.stretch import NOTHING, Stretch

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.tier.metrics import CountsByTopic

_log = logging.getLogger("ottla.tier")
_NONE: Final = ErrorCode.none
_EMPTY: Final = RemoteLog()


class TierRead(NamedTuple):
    code: ErrorCode
    data: Stretch | None = None
    aborted: list[AbortedTxn] | None = None
    goes_on_at: int | None = None
    """If there is nothing from the offset on, up to this one, which is on the disk again."""


class TierReads:
    def __init__(self, node: Node, metadata: TierMetadata, store: ObjectStore, counts: CountsByTopic) -> None:
        self.pending = 0
        self.bytes_read = 0
        self._node = node
        self._metadata = metadata
        self._counts = counts
        self._quota = TierQuota(node.env, lambda: node.config, FETCH)

        def most_bytes() -> int:
            return node.config.get_int("ottla.remote.cache.bytes")

        self.chunks = Chunks(
            store,
            most_bytes,
            lambda: node.config.get_int("remote.log.reader.threads"),
            self._count,
            store.in_thread if isinstance(store, HasThreads) else node.env.executor.blocking,
            self._quota.until_due,
        )
        self.segments = SegmentReader(self.chunks, most_bytes)

    async def close(self) -> None:
        await self.chunks.close()

    @property
    def bytes_kept(self) -> int:
        return self.chunks.bytes_kept

    def _count(self, size: int) -> None:
        self.bytes_read += size
        self._quota.count(size)

    def remote(self, partition: Partition) -> RemoteLog:
        return self._metadata.logs.get((partition.topic_id, partition.key.partition), _EMPTY)

    # -- by offset

    async def read(
        self, partition: Partition, offset: int, max_bytes: int, isolation: Isolation, *, at_least_one: bool
    ) -> TierRead:
        counts = self._counts[partition.key.topic]
        counts.fetches += 1
        if self.pending >= self._node.config.get_int("remote.log.reader.max.pending.tasks"):
            return TierRead(ErrorCode.kafka_storage_error)
        self.pending += 1
        try:
            await self._quota.until_free()
            read = await self._told(
                partition, lambda: self._read(partition, offset, max_bytes, isolation, at_least_one)
            )
            counts.fetched_bytes += len(read.data) if read.data is not None else 0
            return read
        finally:
            self.pending -= 1

    async def _told(self, partition: Partition, read: Callable[[], Awaitable[TierRead]]) -> TierRead:
        try:
            return await read()
        except StoreError as error:
            self._counts[partition.key.topic].failed_fetches += 1
            _log.warning("%s cannot be read from the remote tier now: %s", partition.key, error)
            return TierRead(ErrorCode.kafka_storage_error)
        except DamagedObject as error:
            self._counts[partition.key.topic].failed_fetches += 1
            _log.error("%s cannot be read from the remote tier: %s. Run ottla tier verify.", partition.key, error)
            return TierRead(ErrorCode.corrupt_message)

    async def _read(
        self, partition: Partition, offset: int, max_bytes: int, isolation: Isolation, at_least_one: bool
    ) -> TierRead:
        while True:
            segment, code = self._segment(partition, offset)
            if segment is None:
                return TierRead(code)
            data = await self.segments.read(segment, offset, max_bytes, at_least_one=at_least_one)
            if data is not NOTHING:
                break
            offset = segment.end_offset + 1
            if offset >= partition.log.local_start_offset:
                return TierRead(_NONE, goes_on_at=offset)
        if data is not None:
            self.segments.go_on(segment, data, partial(self._next, partition))
        if isolation is not Isolation.READ_COMMITTED:
            return TierRead(_NONE, data)
        if data is None:
            return TierRead(_NONE, data, [])
        end = await self.segments.offset_after(segment, data)
        return TierRead(_NONE, data, await self._aborted(partition, segment, offset, end))

    def _segment(self, partition: Partition, offset: int) -> tuple[RemoteSegment | None, ErrorCode]:
        remote, log = self.remote(partition), partition.log
        found = remote.find_in(log.epochs, offset)
        if found is not None:
            return found, _NONE
        is_known = self._metadata.knows((partition.topic_id, partition.key.partition))
        if offset >= log.start_offset and not (is_known and is_told_of(log, remote, offset)):
            return None, ErrorCode.kafka_storage_error  # what is there is still being read
        if partition.is_leader:
            begin_where_the_tier_does(partition, remote)
        if offset < log.start_offset:
            return None, ErrorCode.offset_out_of_range
        _log.error(
            "%s: offset %d is neither on this disk nor in the remote tier, which should have all from %d to %d",
            *(partition.key, offset, partition.log.start_offset, partition.log.local_start_offset),
        )
        return None, ErrorCode.offset_out_of_range

    def _next(self, partition: Partition, segment: RemoteSegment) -> RemoteSegment | None:
        following = segment.end_offset + 1
        if following >= partition.log.local_start_offset:
            return None
        return self.remote(partition).find_in(partition.log.epochs, following)

    async def _aborted(self, partition: Partition, first: RemoteSegment, start: int, end: int) -> list[AbortedTxn]:
        """Of transactions that touch the range: the index of a later segment may tell of them, where they ended."""
        found: list[AbortedTxn] = []
        segment: RemoteSegment | None = first
        log = partition.log
        while segment is not None:
            for txn in await self.segments.aborted(segment):
                if txn.last_offset >= start and txn.first_offset < end:
                    found.append(txn)
                if txn.last_stable_offset >= end:
                    return found
            segment = self._next(partition, segment)
        return found + [txn for txn in log.aborted_between(start, end) if txn not in found]

    # -- by time

    async def find_time(self, partition: Partition, timestamp: int, offset: int) -> tuple[ErrorCode, bytes, int]:
        """The first batch in the tier, not wholly below an offset, that may have a record at or after a time, and the
        offset from which on to look in it; empty for none."""
        log, batch = partition.log, b""

        async def search() -> TierRead:
            nonlocal offset, batch
            while offset < log.local_start_offset:
                segment, code = self._segment(partition, offset)
                if segment is None:
                    return TierRead(code)
                if segment.max_timestamp >= timestamp:
                    found = await self.segments.find_time(segment, timestamp, offset)
                    if found is not None:
                        batch = found
                        return TierRead(_NONE)
                offset = segment.end_offset + 1
            return TierRead(_NONE)

        return (await self._told(partition, search)).code, batch, offset
