"""How far a stream is behind when a micro-batch is done: in offsets, and in seconds.

The seconds are the age of the oldest record that waits. Kafka does not tell the time of an offset, so the head of the
batch there is fetched; of a stream that reads all there is, nothing is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.env.ports import Buffer
from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.record.batch import DELETE_HORIZON_BIT, HEADER, HEADER_SIZE, MAGIC_V2, TIMESTAMP_TYPE_BIT, BatchHeader
from ottla.spark.cluster import Cluster, OutOfRange, TopicGone

_A_HEAD: Final = 1  # byte: brokers send a whole batch, and no more than that


class Lag(NamedTuple):
    offsets: int
    seconds: float | None
    """None if nobody could tell."""

    def shown(self) -> dict[str, Any]:
        return {"offsets": self.offsets} | ({} if self.seconds is None else {"seconds": self.seconds})


async def lag_of(
    cluster: Cluster,
    read_to: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    ids: Mapping[str, UUID | None],
    now_ms: int,
) -> Lag:
    """Of a reader that has come to `read_to`. Never fails: it is only shown."""
    waiting = {place: end - read_to.get(place, 0) for place, end in ends.items() if end > read_to.get(place, 0)}
    if not waiting:
        return Lag(0, 0.0)

    async def time_of(place: TopicPartition) -> int | None:
        try:
            found = await cluster.fetch(place, ids.get(place.topic), read_to.get(place, 0), _A_HEAD)
        except (OttlaError, OutOfRange, TopicGone):
            return None
        return first_time(found.records)

    times = [time for time in await asyncio.gather(*map(time_of, waiting)) if time is not None]
    return Lag(sum(waiting.values()), round(max(now_ms - min(times), 0) / 1000, 3) if times else None)


def first_time(records: Buffer) -> int | None:
    """Of the first batch, in milliseconds: that of its first record, or the nearest to it that its header tells."""
    if len(records) < HEADER_SIZE:
        return None
    head = BatchHeader(*HEADER.unpack_from(records))
    if head.magic != MAGIC_V2:
        return None
    is_first = not head.attributes & (TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT)
    time = head.base_timestamp if is_first else head.max_timestamp
    return time if time >= 0 else None
