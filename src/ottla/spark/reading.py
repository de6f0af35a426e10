"""Reads ranges of offsets in a task of Spark: Arrow batches, made while the next ones are under way."""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ottla.env.heap import keep_freed_memory
from ottla.env.object_store import ObjectMissing
from ottla.model.errors import OttlaError
from ottla.spark import loop_thread
from ottla.spark.client_settings import ClientSettings
from ottla.spark.cluster import EARLIEST, Cluster, Fetched, OutOfRange, TopicGone
from ottla.spark.formats.columns import Column
from ottla.spark.planning import Range
from ottla.spark.tier_store import TierPlace, stream_of
from ottla.tier.segment_stream import Span

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.env.ports import Buffer
    from ottla.tier.segment_stream import SegmentStream

_log = logging.getLogger("ottla.spark")
_clusters: dict[tuple[int, ClientSettings], Cluster] = {}


def cluster_of(settings: ClientSettings) -> Cluster:
    """The same one for all tasks of this process, with its open connections."""
    key = (os.getpid(), settings)
    if key not in _clusters:
        _clusters[key] = Cluster(settings)
    return _clusters[key]


class Reading(NamedTuple):
    """What all tasks of a read have in common."""

    client: ClientSettings
    headers: bool
    fail_on_data_loss: bool
    poll_timeout_s: float
    decoded: tuple[Column, ...] = ()
    tier: TierPlace | None = None


def read_ranges(reading: Reading, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """OttlaError, with the partition and the offset, if something cannot be read or is lost."""
    gc.freeze()  # what a worker has imported would be walked through by every collection
    keep_freed_memory()
    steps = _Steps(reading, ranges)
    try:
        while steps.is_going_on:
            yield from steps.next_batches()
    finally:
        steps.close()


class _Steps:
    def __init__(self, reading: Reading, ranges: Sequence[Range]) -> None:
        self._reading = reading
        self._cluster = cluster_of(reading.client)
        self._left = [one for one in ranges if one.size > 0]
        self._under_way: Future[Fetched] | None = None
        self._offset = 0
        self._heard_at = time.monotonic()
        self._stream: SegmentStream | None = None
        self._streamed: list[Range] = []
        self._given_up: Range | None = None
        if self._left:
            self._go_to(self._left[0].start)

    @property
    def is_going_on(self) -> bool:
        return self._under_way is not None

    def next_batches(self) -> Iterator[pa.RecordBatch]:
        from ottla.record.records import CorruptBatch
        from ottla.spark.decoder import Aborted, Decoder
        from ottla.spark.formats import columns

        assert self._under_way is not None
        one, offset = self._left[0], self._offset
        try:
            fetched = self._under_way.result()
        except OutOfRange:
            self._step_over(self._begin_of(one), "offsets from %d on are no longer there")
            return
        except TopicGone as error:
            self._lost(str(error))
            self._go_to(one.end)
            return
        if fetched.start_offset > offset:
            self._step_over(fetched.start_offset, "offsets from %d on have been deleted while they were read")
            return
        decoder = Decoder(one.place, headers=self._reading.headers, check_crcs=self._reading.client.check_crcs)
        try:
            aborted = [Aborted(*transaction) for transaction in fetched.aborted]
            decoded = decoder.decode(fetched.records, offset, one.end, aborted)
            self._check_progress(decoded.next_offset > offset, fetched)
            self._go_to(decoded.next_offset)
            for batch in decoded.batches:
                yield columns.decoded(self._reading.decoded, batch)
        except CorruptBatch as error:
            raise OttlaError(str(error)) from error

    def _go_to(self, offset: int) -> None:
        """The next fetch is sent off."""
        while self._left and offset >= self._left[0].end:
            del self._left[0]
            offset = self._left[0].start if self._left else 0
        self._offset, self._under_way = offset, None
        if self._left:
            one = self._left[0]
            self._under_way = loop_thread.start(self._fetch(one, offset))

    async def _fetch(self, one: Range, offset: int) -> Fetched:
        """From the store what is there. Of what has gone from it meanwhile the brokers say what became of it."""
        if one.tier is not None and self._reading.tier is not None and one is not self._given_up:
            try:
                records = await self._from_store(self._reading.tier, one)
            except ObjectMissing as error:
                _log.info("%s is read from the brokers from offset %d on: %s", one.place, offset, error)
                records = None
            if records is not None:
                return Fetched(records, one.tier.aborted_from(offset), 0, one.end)
            self._given_up = one
        return await self._cluster.fetch(one.place, one.topic_id, offset)

    async def _from_store(self, place: TierPlace, one: Range) -> Buffer | None:
        """The next batches of a range; all that follow it in the store are under way with it."""
        if one not in self._streamed:
            self._streamed = list(takewhile(lambda each: each.tier is not None, self._left))
            spans = [Span(each.tier.segment, each.start, each.end) for each in self._streamed if each.tier is not None]
            self._stream = stream_of(place, spans)
        assert self._stream is not None
        return await self._stream.read(self._streamed.index(one))

    def close(self) -> None:
        """Nobody reads on, perhaps before the end."""
        if self._under_way is not None:
            self._under_way.cancel()
        if self._stream is not None:
            loop_thread.loop().call_soon_threadsafe(self._stream.close)

    def _check_progress(self, has_come: bool, fetched: Fetched) -> None:
        if has_come:
            self._heard_at = time.monotonic()
        elif time.monotonic() - self._heard_at > self._reading.poll_timeout_s:
            one = self._left[0]
            raise OttlaError(
                f"no records of {one.place} at offset {self._offset} came within {self._reading.poll_timeout_s:g} s "
                f"(kafkaConsumer.pollTimeoutMs), though {one.end} is to be reached; the partition may be read up to "
                f"{fetched.end_offset}"
            )

    def _begin_of(self, one: Range) -> int:
        return loop_thread.wait_for(self._cluster.list_offsets({one.place: EARLIEST}))[one.place]

    def _step_over(self, begin: int, what: str) -> None:
        """To where the partition begins now, if nobody minds."""
        one = self._left[0]
        self._lost(f"{one.place}: {what % self._offset}; it begins at {begin} now")
        self._go_to(begin if begin > self._offset else one.end)

    def _lost(self, what: str) -> None:
        report_loss(what, fails=self._reading.fail_on_data_loss)


def report_loss(what: str, *, fails: bool) -> None:
    if fails:
        raise OttlaError(
            f"{what}. Records may have been lost before they were read. If that does not matter, the option "
            "failOnDataLoss=false goes on with what is there"
        )
    _log.warning("%s; going on without it, as failOnDataLoss=false says", what)
