"""Which part of a read lies in the remote tier, and in which segments: planned by the driver, so that tasks read it
straight from the store, in parallel and without the brokers.

What is told by the metadata topic alone is not enough: leaders in a row may have put the same offsets, or have parted
from each other. The leader of today is asked for the epochs of its history, and a segment counts where it has an offset
in the epoch of that history. Where no segment does, and from the leader's disk on, the brokers are read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from ottla.log.txn_index import AbortedTxn
from ottla.model.errors import OttlaError
from ottla.model.names import REMOTE_METADATA_TOPIC, TopicPartition
from ottla.record.reader import iterate_batches, read_records
from ottla.spark.cluster import EARLIEST, EARLIEST_LOCAL, LATEST, Cluster, Fetched, OutOfRange
from ottla.spark.planning import Range
from ottla.spark.tier_store import TierPlace, reader_of
from ottla.tier.metadata_records import metadata_partition
from ottla.tier.remote_log import RemoteLog
from ottla.tier.remote_segment import RemoteSegment
from ottla.tier.told import Logs, hear

_AT_ONCE: Final = 32


class AbortedInTier(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Of the record that ended it, or later if that is not in the tier."""


class InTier(NamedTuple):
    """Where the records of a range are, and which transactions in it were aborted."""

    segment: RemoteSegment
    aborted: tuple[AbortedInTier, ...] = ()

    def aborted_from(self, offset: int) -> list[tuple[int, int]]:
        """As an answer to Fetch has them: those that are over before an offset do not count from there on. Their
        producer may have committed what follows."""
        return [(txn.producer_id, txn.first_offset) for txn in self.aborted if txn.last_offset >= offset]


class _Span(NamedTuple):
    """An epoch of the leader's history, and where it ends."""

    epoch: int
    end: int


async def through_the_tier(cluster: Cluster, place: TierPlace | None, ranges: list[Range]) -> list[Range]:
    """The same ranges, cut where the tier ends and at its segments."""
    known = [one for one in ranges if one.size > 0 and one.topic_id is not None]
    if place is None or not known:
        return ranges
    local = await cluster.list_offsets({one.place: EARLIEST_LOCAL for one in known})
    cold = [one for one in known if one.start < local[one.place]]
    logs = await _told(cluster, [(one.topic_id, one.place.partition) for one in cold if one.topic_id is not None])
    found: list[Range] = []
    for one in ranges:
        remote = logs.get((one.topic_id, one.place.partition)) if one.topic_id is not None else None
        if one not in cold or remote is None:
            found.append(one)
        else:
            found += await _cut(cluster, place, one, remote, min(one.end, local[one.place]))
    return found


async def _cut(cluster: Cluster, place: TierPlace, one: Range, remote: RemoteLog, stop: int) -> list[Range]:
    history = await _history(cluster, one.place, remote)
    pieces: list[tuple[Range, RemoteSegment]] = []
    offset = one.start
    while offset < stop:
        span = next((each for each in history if each.end > offset), None)
        segment = remote.find(span.epoch, offset) if span is not None else None
        if span is None or segment is None:
            break
        end = min(stop, span.end, segment.end_offset + 1)
        pieces.append((one._replace(start=offset, end=end), segment))
        offset = end
    aborted: list[AbortedTxn] = []
    if pieces and cluster.settings.read_committed:
        aborted = await _aborted(cluster, place, one, [segment for _, segment in pieces], offset)
    told = [
        piece._replace(
            tier=InTier(
                segment,
                tuple(
                    AbortedInTier(txn.producer_id, txn.first_offset, txn.last_offset)
                    for txn in aborted
                    if txn.first_offset < piece.end and txn.last_offset >= piece.start
                ),
            )
        )
        for piece, segment in pieces
    ]
    return [*told, one._replace(start=offset)]


async def _history(cluster: Cluster, place: TopicPartition, remote: RemoteLog) -> list[_Span]:
    """Epochs of the leader's history that the tier has something of, in order."""
    epochs = sorted({epoch for segment in remote.readable() for epoch, _ in segment.epochs})
    ends = await asyncio.gather(*(cluster.end_of_epoch(place, epoch) for epoch in epochs))
    return [_Span(epoch, end) for epoch, (known, end) in zip(epochs, ends, strict=True) if known == epoch]


async def _aborted(
    cluster: Cluster, place: TierPlace, one: Range, segments: Iterable[RemoteSegment], end: int
) -> list[AbortedTxn]:
    """Those that ended in one of the segments stand in its index; those that were still open at the end of the last one
    overlap with what follows, and whoever fetches from there on is told of them."""
    reader, turns = reader_of(place), asyncio.Semaphore(_AT_ONCE)

    async def indexed(segment: RemoteSegment) -> list[AbortedTxn]:
        async with turns:
            return await reader.aborted(segment)

    found = [txn for each in await asyncio.gather(*map(indexed, segments)) for txn in each]
    latest = (await cluster.list_offsets({one.place: LATEST}))[one.place]
    if end < latest:
        try:
            fetched = await _what_follows(cluster, one, end)
        except OutOfRange:  # it has expired meanwhile, which whoever reads it will say
            return found
        found += [AbortedTxn(producer, first, latest, latest) for producer, first in fetched.aborted if first < end]
    return found


async def _what_follows(cluster: Cluster, one: Range, offset: int) -> Fetched:
    """A broker for which the tier is slow answers without records, and then tells of no transactions either."""
    deadline = time.monotonic() + cluster.settings.api_timeout_s
    while not (fetched := await cluster.fetch(one.place, one.topic_id, offset, 1)).records:
        if time.monotonic() > deadline:
            raise OttlaError(
                f"cannot tell which transactions of {one.place} were aborted: no record from offset {offset} on came "
                f"within {cluster.settings.api_timeout_s:g} s (kafka.default.api.timeout.ms)"
            )
    return fetched


async def _told(cluster: Cluster, keys: list[tuple[UUID, int]]) -> Logs:
    """What the metadata topic tells of some partitions, to its end of now."""
    logs: Logs = {}
    topic = (await cluster.topics([REMOTE_METADATA_TOPIC])).get(REMOTE_METADATA_TOPIC)
    if topic is None or not keys:
        return logs
    numbers = sorted({metadata_partition(*key, len(topic.leaders)) for key in keys})
    await asyncio.gather(*(_hear_all(cluster, TopicPartition(topic.name, number), logs) for number in numbers))
    return logs


async def _hear_all(cluster: Cluster, place: TopicPartition, logs: Logs) -> None:
    offset = (await cluster.list_offsets({place: EARLIEST}))[place]
    end = (await cluster.list_offsets({place: LATEST}))[place]
    while offset < end:
        fetched = await cluster.fetch(place, None, offset)
        for header, batch in iterate_batches(fetched.records):
            for record in () if header.is_control else read_records(batch):
                if record.offset >= offset:
                    hear(record.value, logs, {})
            offset = max(offset, header.next_offset)
