"""What a new follower takes from the remote tier: not the records, but what a log must know of its past.

That is the leader epochs of the part that it will never have on its disk, and the producers at the end of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.tier.metadata_topic import TierMetadata
from ottla.log.checkpoints import CorruptCheckpoint, epochs_in
from ottla.log.producers import CorruptSnapshot, read_snapshot
from ottla.log.truncation import Before
from ottla.model.errors import OttlaError
from ottla.replica.partition import Partition
from ottla.tier.chunks import Chunks
from ottla.tier.layout import Kind, object_key
from ottla.tier.manifest import DamagedObject

if TYPE_CHECKING:
    from ottla.broker.tier.metrics import CountsByTopic


class NewFollowers:
    def __init__(self, metadata: TierMetadata, chunks: Chunks, counts: CountsByTopic) -> None:
        self._metadata = metadata
        self._chunks = chunks
        self._counts = counts

    async def before(self, partition: Partition, epoch: int, offset: int, start_offset: int) -> Before:
        counts = self._counts[partition.key.topic]
        counts.beginnings += 1
        try:
            return await self._before(partition, epoch, offset, start_offset)
        except OttlaError:
            counts.failed_beginnings += 1
            raise

    async def _before(self, partition: Partition, epoch: int, offset: int, start_offset: int) -> Before:
        remote = self._metadata.logs.get((partition.topic_id, partition.key.partition))
        segment = remote.find(epoch, offset) if remote is not None else None
        if segment is None:
            raise OttlaError(f"no segment in the remote tier is known to hold offset {offset} of epoch {epoch}")
        epochs_key, snapshot_key = object_key(segment, Kind.EPOCHS), object_key(segment, Kind.SNAPSHOT)
        try:
            epochs = epochs_in(await self._chunks.whole(segment, Kind.EPOCHS), epochs_key)
            producers = read_snapshot(await self._chunks.whole(segment, Kind.SNAPSHOT))
        except CorruptCheckpoint as error:
            raise DamagedObject(str(error)) from error
        except CorruptSnapshot as error:
            raise DamagedObject(f"{snapshot_key}: {error}") from error
        return Before(start_offset, [each for each in epochs if each.start_offset <= offset], producers)
