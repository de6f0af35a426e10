"""Looks where the records of tiered partitions are: each that is committed is on the leader's disk, or in the store, or
has rightly expired.

What the store holds is taken from its objects themselves. The leader is asked only what it would tell a reader: where
its log begins, from where on it is on its disk, and which segment has what lies between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from ottla.broker.node import Node
from ottla.broker.tier.backlog import still_to_copy
from ottla.log.paths import LOG_SUFFIX
from ottla.replica.partition import Partition
from ottla.sim.cluster.cast import Cast
from ottla.sim.cluster.oracle import PartitionStory
from ottla.sim.journal import Place, short
from ottla.sim.log_files import PartitionId, StoredLog, read_folder
from ottla.sim.object_store import SimBucket
from ottla.tier.layout import Kind, object_key, parse_key, partition_folder
from ottla.tier.remote_log import RemoteLog
from ottla.tier.remote_segment import RemotePartition, RemoteSegment, SegmentState

_EVERY_S: Final = 0.2
_NEEDED: Final = (Kind.LOG, Kind.INDEX, Kind.TIME_INDEX, Kind.EPOCHS, Kind.SNAPSHOT, Kind.MANIFEST)


class TierWatch:
    def __init__(self, cast: Cast, bucket: SimBucket) -> None:
        self._oracle = cast.oracle
        self._members = cast.members
        self._bucket = bucket
        self._logs: dict[UUID, StoredLog] = {}
        self._seen: set[tuple[UUID, int, int]] = set()
        self.gone: list[RemotePartition] = []
        """Partitions of topics that are deleted."""
        self._oracle.size_in_store = self.size

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            self.look()

    def look(self) -> None:
        # Now, not when the inspector last looked: what a leader has given up meanwhile was too old by its clock.
        clocks = [member.host.clock.now_ms() for member in self._members]
        self._oracle.latest_ms = max(self._oracle.latest_ms, *clocks)
        for story, node, partition in self._led():
            self._look_at(story, node, partition)

    def size(self, key: PartitionId) -> int:
        """Of all segments that the store has of a partition."""
        story = self._oracle.partitions.get(key)
        if story is None or not story.cleanup.tiered:
            return 0
        folder = f"{partition_folder(_remote(story))}/"
        names = (name for name in self._bucket.names() if name.startswith(folder) and name.endswith(LOG_SUFFIX))
        return sum(len(self._bucket.truth(name) or b"") for name in names)

    def _tiered(self) -> list[PartitionStory]:
        return [story for story in self._oracle.partitions.values() if story.cleanup.tiered]

    def _led(self) -> Iterator[tuple[PartitionStory, Node, Partition]]:
        """Those whose leader is there and would answer."""
        for story in self._tiered():
            for member in self._members:
                node = member.node
                if member.id != story.leader or node is None or not member.is_broker or node.tier is None:
                    continue
                partition = node.replicas.by_id.get(story.id)
                if partition is None or not partition.is_leader or partition.leader_epoch != story.leader_epoch:
                    continue
                if node.tier.metadata.knows(story.id):
                    yield story, node, partition

    # -- where records are

    def _look_at(self, story: PartitionStory, node: Node, partition: Partition) -> None:
        assert node.tier is not None
        log, remote = partition.log, node.tier.metadata.logs.get(story.id) or RemoteLog()
        local = log.local_start_offset
        offset = max(log.start_offset, story.given_up)
        while offset < local:
            segment = remote.find_in(log.epochs, offset)
            if segment is None:
                starts = [each.start_offset for each in remote.readable() if each.start_offset > offset]
                stop = min([local, *starts])
                self._missing(story, partition, offset, stop, "no segment in the tier has it")
            else:
                epochs = [each.start_offset for each in log.epochs.starts if each.start_offset > offset]
                stop = min([local, segment.end_offset + 1, *epochs])
                self._look_into(story, partition, segment, offset, stop)
            offset = stop

    def _look_into(
        self, story: PartitionStory, partition: Partition, segment: RemoteSegment, offset: int, stop: int
    ) -> None:
        lacks = [key for kind in _NEEDED if self._bucket.truth(key := object_key(segment, kind)) is None]
        if lacks:
            self._missing(story, partition, offset, stop, f"{lacks[0]} is not in the store")
            return
        if (segment.id, offset, stop) in self._seen:
            return
        self._seen.add((segment.id, offset, stop))
        log = self._logs.get(segment.id)
        if log is None:
            name = f"/{segment.start_offset:020d}{LOG_SUFFIX}"
            log = self._logs[segment.id] = read_folder({name: self._bucket.truth(object_key(segment, Kind.LOG))}, "")
        for number in range(offset, stop):
            record = log.records.get(number)
            if record is None:
                self._missing(story, partition, number, number + 1, f"it is not in the segment: {log.trouble}")
            else:
                self._oracle.counts["records seen in the store"] += 1
                self._oracle.commits(
                    story.id, number, (record.value,), "the store", keys=(record.key,), timestamp=record.timestamp
                )

    def _missing(self, story: PartitionStory, partition: Partition, offset: int, stop: int, why: str) -> None:
        """Unless it has expired, and the leader has not heard of it yet."""
        size = partition.log.size + self.size(story.id)
        for number in range(offset, stop):
            fact = story.facts.get(number)
            if fact is None or self._oracle.may_be_gone(story, number, size):
                continue
            log = partition.log
            self._oracle.complain(
                f"{short(fact.value)} at {number} of {story.name} is neither on the disk of its leader {story.leader}, "
                f"which has it from {log.local_start_offset} on, nor in the tier, nor expired, as the log starts at "
                f"{log.start_offset}: {why}",
                Place(story.id, number),
            )
            return

    # -- at the end

    def segments_at_most(self) -> int:
        """That the disk of anyone has of a partition: so many may be still to copy."""
        return max(
            (
                len(partition.log.segments)
                for story in self._tiered()
                for member in self._members
                if member.node is not None
                and member.is_broker
                and (partition := member.node.replicas.by_id.get(story.id)) is not None
            ),
            default=0,
        )

    def trouble(self) -> str | None:
        """What is not yet as it is to be when nobody writes any more; None once all is."""
        known: dict[str, None] = {}
        led = {story.id for story, _, _ in self._led()}
        for story in self._tiered():
            if story.id not in led:
                return f"{story.name} has no leader that knows what is in the tier"
        for story, node, partition in self._led():
            assert node.tier is not None
            remote = node.tier.metadata.logs.get(story.id) or RemoteLog()
            for segment in remote.listed():
                if segment.state is not SegmentState.COPY_FINISHED:
                    return f"{story.name}: the segment at {segment.start_offset} is {segment.state.name}"
                if segment.end_offset < partition.log.start_offset:
                    return f"{story.name}: the segment at {segment.start_offset} has expired and is still there"
                known.update((object_key(segment, kind), None) for kind in Kind)
            if still_to_copy(partition):
                return f"{story.name}: {len(still_to_copy(partition))} segments are not in the tier yet"
            if (other := self._knows_otherwise(story, remote)) is not None:
                return f"{story.name}: node {other} knows of other segments than its leader {story.leader}"
        for of in self.gone:
            left = [key for key in self._bucket.names() if key.startswith(f"{partition_folder(of)}/")]
            if any(not self._bucket.puttings[key].may_be_forgotten for key in left):
                return f"{of.key} was deleted, and the store still has {left[0]}"
        return self._unknown(known)

    def _knows_otherwise(self, story: PartitionStory, remote: RemoteLog) -> int | None:
        for member in self._members:
            tier = member.node.tier if member.node is not None and member.is_broker else None
            if tier is None or member.id not in story.replicas or not tier.metadata.knows(story.id):
                continue
            if (tier.metadata.logs.get(story.id) or RemoteLog()).listed() != remote.listed():
                return member.id
        return None

    def _unknown(self, known: dict[str, None]) -> str | None:
        """Objects that no segment has: only such as nobody could take away, of somebody who died over them."""
        folders = [f"{partition_folder(of)}/" for of in self.gone]
        for key in self._bucket.names():
            if key in known or any(key.startswith(folder) for folder in folders):
                continue
            if parse_key(key) is None:
                return f"{key} is none of the tier's names"
            if not self._bucket.puttings[key].may_be_forgotten:
                return f"{key} belongs to no segment, and {self._bucket.puttings[key].who} who put it lives"
        return None

    def count(self) -> None:
        """For those who want to know what a run has gone through."""
        self._oracle.counts.update(self._bucket.counts)


def _remote(story: PartitionStory) -> RemotePartition:
    return RemotePartition(story.name.rpartition("-")[0], *story.id)
