"""What topics that are deleted have left in the remote tier.

Whoever leads the partition of `__remote_log_metadata` that tells of them deletes it, whatever became of those who led
the topic itself: a crash at any point is gone on with by the next one. (In Kafka the topic's last leaders do it, and
what they do not finish stays.)
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.broker.tier.metadata_topic import LogKey, TierMetadata
from ottla.env.object_store import ObjectStore
from ottla.tier.layout import partition_folder
from ottla.tier.remote_segment import DeleteState, PartitionDelete, SegmentState, SegmentUpdate
from ottla.tier.upload import remove

if TYPE_CHECKING:
    from ottla.broker.node import Node

_log = logging.getLogger("ottla.tier")
_SURE_AFTER_S: Final = 30.0  # a topic that the metadata does not name may just not have come here yet


class DeletedTopics:
    def __init__(self, node: Node, metadata: TierMetadata, store: ObjectStore) -> None:
        self._node = node
        self._metadata = metadata
        self._store = store
        self._seen_to_go: dict[UUID, None] = {}
        self._unknown_since: dict[LogKey, float] = {}

    def deleted(self, topic_id: UUID) -> None:
        self._seen_to_go[topic_id] = None

    def due(self) -> list[LogKey]:
        """Partitions of topics that are gone for sure, and that are ours to clear away."""
        topics, now = self._node.image.topics, self._node.env.clock.elapsed()
        unknown = [
            key
            for key in {**self._metadata.logs, **self._metadata.deleting}
            if key[0] not in topics and self._metadata.leads(key) and self._metadata.knows(key)
        ]
        self._unknown_since = {key: self._unknown_since.get(key, now) for key in unknown}
        return [
            key
            for key, since in self._unknown_since.items()
            if key[0] in self._seen_to_go or key in self._metadata.deleting or now - since >= _SURE_AFTER_S
        ]

    async def clear(self, key: LogKey) -> None:
        of = self._metadata.names.get(key)
        if of is None:
            return
        node_id, metadata = self._node.config.node_id, self._metadata

        def state(which: DeleteState) -> PartitionDelete:
            return PartitionDelete(of, node_id, self._node.env.clock.now_ms(), which)

        if key not in metadata.deleting:
            await metadata.publish(state(DeleteState.MARKED))
        await metadata.publish(state(DeleteState.STARTED))
        remote = metadata.logs.get(key)
        for segment in remote.listed() if remote is not None else ():
            update = SegmentUpdate(of, segment.id, node_id, self._node.env.clock.now_ms(), SegmentState.DELETE_STARTED)
            if segment.state is not SegmentState.DELETE_STARTED:
                await metadata.publish(update)
            await remove(self._store, segment)
            await metadata.publish(update._replace(state=SegmentState.DELETE_FINISHED))
        await self._store.delete([each.key for each in await self._store.list(partition_folder(of))])
        await metadata.publish(state(DeleteState.FINISHED))
        _log.info("%s was deleted, and so is what it had in the remote tier", of.key)
