"""What the leader of a partition does for its part in the remote tier: copies closed segments, deletes expired ones.

A copy goes in three steps, and a crash between any two of them loses nothing: the metadata topic says that it begins,
the objects are put, the topic says that they are there. Only then may local retention delete the segment. What was
begun and not finished is copied anew and then deleted; a deletion that was begun is gone on with.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.broker.tier.backlog import still_to_copy
from ottla.broker.tier.beginning import begin_where_the_tier_does
from ottla.broker.tier.metadata_topic import TierMetadata
from ottla.broker.tier.pace import CopyPace
from ottla.broker.tier.quota import TierQuota
from ottla.env.files import read_file
from ottla.env.object_store import ObjectStore, StoreError
from ottla.env.ports import Disk
from ottla.log.checkpoints import write_epochs
from ottla.log.epochs import EpochStart, LeaderEpochs
from ottla.log.partition_log import PartitionLog
from ottla.log.paths import SNAPSHOT_SUFFIX, offset_name
from ottla.log.producers import write_snapshot
from ottla.log.segment import Segment
from ottla.model.errors import OttlaError
from ottla.model.names import NO_OFFSET, REMOTE_METADATA_TOPIC
from ottla.replica.partition import Partition
from ottla.tier.expiry import Keep, expired
from ottla.tier.remote_log import RemoteLog
from ottla.tier.remote_segment import (
    DeleteState,
    PartitionDelete,
    RemotePartition,
    RemoteSegment,
    SegmentState,
    SegmentUpdate,
)
from ottla.tier.upload import SegmentFiles, remove, upload

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.tier.metrics import Counts

_log = logging.getLogger("ottla.tier")
_DELETED_AT_ONCE: Final = 50


class LeadershipOver(Exception):
    """Somebody else leads now, or the log is gone: what was begun is for him to go on with."""


class LeaderWork:
    """Of one partition, in one leader epoch."""

    def __init__(
        self,
        node: Node,
        partition: Partition,
        metadata: TierMetadata,
        store: ObjectStore,
        quota: TierQuota,
        pace: CopyPace,
        counts: Counts,
        being_copied: set[UUID],
    ) -> None:
        """`being_copied` are segments that another work of the same partition may be at: they are not deleted."""
        self.of = RemotePartition(partition.key.topic, partition.topic_id, partition.key.partition)
        self.epoch = partition.leader_epoch
        self._node = node
        self._partition = partition
        self._metadata = metadata
        self._store = store
        self._quota = quota
        self._pace = pace
        self._counts = counts
        self._being_copied = being_copied

    @property
    def key(self) -> tuple[UUID, int]:
        return self.of.topic_id, self.of.partition

    @property
    def remote(self) -> RemoteLog:
        return self._metadata.logs.get(self.key) or RemoteLog()

    def _check(self) -> PartitionLog:
        partition = self._partition
        log = partition.log
        if not partition.is_leader or partition.leader_epoch != self.epoch or log.closed or log.failed is not None:
            raise LeadershipOver
        return log

    # -- copying

    async def copy(self) -> None:
        """All segments that are closed and below the last stable offset, from the first on that is not there yet; until
        copying is turned off."""
        self._check()
        self.note_copied()
        for segment, following in still_to_copy(self._partition):
            await self._quota.until_free()
            log = self._check()
            if segment not in log.segments or not log.config.copies_to_tier:
                return
            self._quota.count(segment.size)
            self._counts.copies += 1
            try:
                await self._copy(log, segment, following)
            except (StoreError, OSError):
                self._counts.failed_copies += 1
                raise
            self._counts.copied_bytes += segment.size
            self.note_copied()

    def note_copied(self) -> None:
        log = self._partition.log
        log.tiered_to = max(log.tiered_to, self.remote.copied_to(log.epochs, log.end_offset))

    async def _copy(self, log: PartitionLog, segment: Segment, following: int) -> None:
        now_ms = self._node.env.clock.now_ms()
        new = RemoteSegment(
            self.of,
            self._node.env.random.uuid(),
            segment.base_offset,
            following - 1,
            self._node.config.node_id,
            segment.max_timestamp if segment.max_timestamp >= 0 else segment.last_modified_ms(),
            now_ms,
            epochs_within(log, segment.base_offset, following),
            segment.size,
            SegmentState.COPY_STARTED,
        )
        blocking = self._node.env.executor.blocking
        files = await blocking(partial(read_files, self._node.env.disk, log, segment, following))
        new = new._replace(has_no_aborted=not files.txn_index)
        self._check()
        self._being_copied.add(new.id)
        try:
            await self._put(new, files)
        finally:
            self._being_copied.discard(new.id)
        _log.info("%s: offsets %d to %d are in the remote tier", self.of.key, new.start_offset, new.end_offset)

    async def _put(self, new: RemoteSegment, files: SegmentFiles) -> None:
        await self._metadata.publish(new)
        try:
            self._check()
            custom = await upload(self._store, new, files, self._pace.before)
            self._check()
        except LeadershipOver:
            await self._take_back(new)
            raise
        except (StoreError, OSError):
            await self._abandon(new)
            raise
        await self._metadata.publish(self._update(new, SegmentState.COPY_FINISHED, custom))
        told = self.remote.segments.get(new.id)
        if told is None or told.state is not SegmentState.COPY_FINISHED:
            # The topic has lost its beginning, say. What comes after it must not be copied before it.
            raise OttlaError(f"{REMOTE_METADATA_TOPIC} does not say that offset {new.start_offset} was copied")

    async def _take_back(self, segment: RemoteSegment) -> None:
        """The new leader deletes it by what the topic says; what we put meanwhile is ours to take away."""
        try:
            await remove(self._store, segment)
        except StoreError as error:
            _log.info("%s: a copy that was given up is left for the new leader: %s", self.of.key, error)

    async def _abandon(self, segment: RemoteSegment) -> None:
        """A copy that has failed, as far as the store lets us; the next round goes on where this one fails."""
        try:
            await self.delete([segment])
        except StoreError as error:
            _log.info("%s: a copy that failed is taken away later: %s", self.of.key, error)
        except LeadershipOver:  # the new leader may have deleted it before the last of it was put
            await self._take_back(segment)

    def _left_over(self, log: PartitionLog) -> list[RemoteSegment]:
        """Deletions that were begun, and copies that nobody finishes any more, once there are others of the same
        offsets or none is needed. Not before: a record that calls one finished may still be under way, and whoever
        reads it gives up what he has on his disk."""
        have = max(log.tiered_to, log.start_offset - 1)
        return [
            each
            for each in self.remote.listed((SegmentState.COPY_STARTED, SegmentState.DELETE_STARTED))
            if each.id not in self._being_copied
            and (each.state is SegmentState.DELETE_STARTED or each.end_offset <= have)
        ]

    def _update(self, segment: RemoteSegment, state: SegmentState, custom: bytes | None = None) -> SegmentUpdate:
        return SegmentUpdate(
            self.of, segment.id, self._node.config.node_id, self._node.env.clock.now_ms(), state, custom
        )

    # -- deleting

    async def delete(self, segments: list[RemoteSegment]) -> None:
        """Many at a time: to publish something may take as long as a follower's fetch."""
        for first in range(0, len(segments), _DELETED_AT_ONCE):
            self._check()
            some = segments[first : first + _DELETED_AT_ONCE]
            new = [each for each in some if each.state is not SegmentState.DELETE_STARTED]
            await self._publish(new, SegmentState.DELETE_STARTED)
            gone: list[RemoteSegment] = []
            try:
                for segment in some:
                    self._counts.deletions += 1
                    await remove(self._store, segment)
                    gone.append(segment)
            except StoreError:
                self._counts.failed_deletions += 1
                raise
            finally:
                await self._publish(gone, SegmentState.DELETE_FINISHED)

    async def _publish(self, segments: list[RemoteSegment], state: SegmentState) -> None:
        if segments:
            await self._metadata.publish(*(self._update(each, state) for each in segments))

    async def expire(self) -> None:
        """First the log's start moves, then what lies before it goes: no reader is led to what is not there."""
        self.begin()
        self.note_copied()
        log = self._check()
        config, remote = log.config, self.remote
        only_local = sum(segment.size for segment in log.segments if segment.base_offset > log.tiered_to)
        found = expired(
            list(remote.readable()),
            log.epochs,
            log.start_offset,
            log.end_offset,
            only_local,
            Keep(config.retention_ms, config.retention_bytes),
            self._node.env.clock.now_ms(),
        )
        if found.start_offset > log.start_offset:
            self._advance_start(log, found.start_offset)
        await self.delete([*self._left_over(log), *found.segments])

    def begin(self) -> None:
        """Before all else, as copying may take long."""
        self._check()
        if begin_where_the_tier_does(self._partition, self.remote) is not None:
            raise LeadershipOver

    def _advance_start(self, log: PartitionLog, offset: int) -> None:
        error = self._partition.advance_start(min(offset, self._partition.high_watermark))
        if error is not None:
            raise LeadershipOver

    async def delete_all(self) -> None:
        """Tiering was turned off (KIP-950): the log begins where it does on this disk, and nothing stays there. All
        forget how far it was copied, since it may be turned on again, and what is on the disk then is nowhere else."""
        log = self._check()
        log.tiered_to = NO_OFFSET
        if log.start_offset < log.local_start_offset:
            self._advance_start(log, log.local_start_offset)
        await self.delete(self.remote.listed())
        self._check()
        if not self.remote.is_blank:
            now_ms = self._node.env.clock.now_ms()
            await self._metadata.publish(
                PartitionDelete(self.of, self._node.config.node_id, now_ms, DeleteState.FINISHED)
            )


def epochs_within(log: PartitionLog, start: int, end: int) -> tuple[EpochStart, ...]:
    """The epochs of a range of offsets, the first from its first offset on."""
    epochs = LeaderEpochs([each for each in log.epochs.starts if each.start_offset < end])
    epochs.truncate_from_start(start)
    return tuple(epochs.starts)


def read_files(disk: Disk, log: PartitionLog, segment: Segment, following: int) -> SegmentFiles:
    """Blocking. The log is open, so what is renamed or deleted meanwhile can be read to its end."""
    snapshot = f"{log.folder}/{offset_name(following)}{SNAPSHOT_SUFFIX}"
    txn_index = segment.txn_index.path
    return SegmentFiles(
        disk.open(segment.path),
        segment.size,
        read_file(disk, segment.offset_index.entries.path),
        read_file(disk, segment.time_index.entries.path),
        read_file(disk, txn_index) if disk.exists(txn_index) else b"",
        write_epochs(each for each in log.epochs.starts if each.start_offset < following),
        read_file(disk, snapshot) if disk.exists(snapshot) else write_snapshot(()),
    )
