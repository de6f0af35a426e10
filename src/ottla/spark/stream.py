"""The streaming side of the source.

Spark keeps one of these for as long as a query runs, in a process beside the driver, and asks it before every
micro-batch how far to read. What it is asked from is what the batch before has ended with, and has committed: the
moment to tell a consumer group of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import Future
from math import inf
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.model.names import TopicPartition
from ottla.spark import loop_thread
from ottla.spark.cluster import EARLIEST, LATEST, Cluster, Topic
from ottla.spark.lag import Lag, lag_of
from ottla.spark.looking_up import resolved, wanted_partitions, wanted_topics
from ottla.spark.planning import Range, limited, tasks
from ottla.spark.positions import BEHIND, Offsets, from_spark, ids_of, to_spark
from ottla.spark.reading import cluster_of, read_ranges, report_loss
from ottla.spark.source import Task, reading_of
from ottla.spark.source_options import SourceOptions
from ottla.spark.tier_planning import through_the_tier

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("ottla.spark")
_SHOWING_PROGRESS_S: Final = 10.0
_SHOWING_LAG_S: Final = 1.0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._target: Offsets | None = None  # of Trigger.AvailableNow
        self._latest: dict[str, Any] | None = None
        self._lag: Future[Lag] | None = None
        self._triggered_at = -inf
        self._told: Offsets = {}
        self._telling: Future[None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to tasks with nothing but its options."""
        return (StreamReader, (self.options,))

    # -- how far

    def initialOffset(self) -> dict[str, Any]:
        return loop_thread.wait_for(self._initial())

    async def _initial(self) -> dict[str, Any]:
        cluster = cluster_of(self.options.client)
        topics = await wanted_topics(cluster, self.options, must_be_there=True)
        places = wanted_partitions(self.options, topics)
        later = LATEST if self.options.later_than_all_is_latest else None
        return to_spark(await resolved(cluster, self.options.starting, places, later_than_all=later), ids_of(topics))

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        return ReadAllAvailable() if self.options.min_offsets is None else ReadMinRows(self.options.min_offsets)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        offsets, ids = from_spark(start)
        self._tell_group(offsets)
        told = self._next_end(start, offsets, ids, limit)
        if told == start:
            self._wait_until_told()  # this may have been the last call: Spark ends the process without a word
        return told

    def _next_end(
        self, start: dict[str, Any], offsets: Offsets, ids: dict[str, UUID | None], limit: ReadLimit
    ) -> dict[str, Any]:
        topics, begins, ends = loop_thread.wait_for(self._ends(offsets, ids))
        self._latest = to_spark(ends, ids_of(topics))
        latest = ends
        if self._target is not None:
            ends = _no_further(ends, begins, self._target, offsets)
        if not isinstance(limit, ReadAllAvailable):
            if self._waits_for_more(begins, ends):
                self._look_at_lag(begins, latest, topics)
                return start
            if self.options.max_offsets is not None:
                ends = limited(begins, ends, self.options.max_offsets)
        self._look_at_lag(ends, latest, topics)
        return to_spark(ends, ids_of(topics))

    def _look_at_lag(self, read_to: Offsets, latest: Offsets, topics: dict[str, Topic]) -> None:
        cluster, now_ms = cluster_of(self.options.client), time.time_ns() // 1_000_000
        if self._lag is not None:
            self._lag.cancel()
        self._lag = loop_thread.start(lag_of(cluster, read_to, latest, ids_of(topics), now_ms))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """What stands in a progress event as latestOffset; the one place there in which a source may say more."""
        if self._latest is None or self._lag is None:
            return self._latest
        try:
            return self._latest | {BEHIND: self._lag.result(_SHOWING_LAG_S).shown()}
        except TimeoutError:
            return self._latest

    def prepareForTriggerAvailableNow(self) -> None:
        _, _, self._target = loop_thread.wait_for(self._ends({}, {}))

    async def _ends(self, start: Offsets, ids: dict[str, UUID | None]) -> tuple[dict[str, Topic], Offsets, Offsets]:
        """Topics, where reading goes on, and where partitions end now."""
        cluster = cluster_of(self.options.client)
        topics = await wanted_topics(cluster, self.options, must_be_there=not start)
        places = wanted_partitions(self.options, topics)
        ends = await cluster.list_offsets(dict.fromkeys(places, LATEST))
        self._look_for_losses(start, ids, topics, ends)
        return topics, await self._begins(cluster, start, ids, topics, places), ends

    def _look_for_losses(
        self, start: Offsets, ids: dict[str, UUID | None], topics: dict[str, Topic], ends: Offsets
    ) -> None:
        fails = self.options.fail_on_data_loss
        for topic in sorted({place.topic for place in start}):
            if topic in topics and _is_another(topic, ids, topics):
                report_loss(f"topic {topic} has been deleted and made anew", fails=fails)
        for place, offset in start.items():
            if place not in ends:
                report_loss(f"{place} is no longer there", fails=fails)
            elif offset > ends[place] and not _is_another(place.topic, ids, topics):
                report_loss(f"{place} was read up to {offset} and ends at {ends[place]} now", fails=fails)

    async def _begins(
        self,
        cluster: Cluster,
        start: Offsets,
        ids: dict[str, UUID | None],
        topics: dict[str, Topic],
        places: list[TopicPartition],
    ) -> Offsets:
        """Where reading goes on; new partitions are read from their beginning."""
        new = [place for place in places if place not in start or _is_another(place.topic, ids, topics)]
        found = await cluster.list_offsets(dict.fromkeys(new, EARLIEST)) if new else {}
        return {place: found[place] if place in found else start[place] for place in places}

    def _waits_for_more(self, begins: Offsets, ends: Offsets) -> bool:
        """By minOffsetsPerTrigger, until maxTriggerDelay is over or, with Trigger.AvailableNow, there is no more.

        What waits when a query is started has waited long enough, as in the official source.
        """
        least = self.options.min_offsets
        if least is not None and self._target is None:
            waiting = sum(max(ends[place] - begins[place], 0) for place in ends)
            if waiting < least and time.monotonic() - self._triggered_at < self.options.max_delay_s:
                return True
        self._triggered_at = time.monotonic()
        return False

    # -- what to read

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        ranges = loop_thread.wait_for(self._ranges(start, end))
        return [Task(own) for own in tasks(ranges, self.options.min_partitions, self.options.max_records)]

    async def _ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[Range]:
        begins, old_ids = from_spark(start)
        ends, ids = from_spark(end)
        new = [place for place in ends if place not in begins or _are_different(old_ids, ids, place.topic)]
        cluster = cluster_of(self.options.client)
        if new:
            found = await cluster.list_offsets(dict.fromkeys(new, EARLIEST))
            for place in new:
                if place not in begins and found[place] > 0:
                    report_loss(
                        f"{place} has come since the last batch, and begins at {found[place]} and not at 0",
                        fails=self.options.fail_on_data_loss,
                    )
            begins |= found
        ranges = [Range(place, begins[place], ends[place], ids.get(place.topic)) for place in ends]
        return await through_the_tier(cluster, self.options.tier, ranges)

    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        return read_ranges(reading_of(self.options), partition.ranges)

    # -- progress for a consumer group

    def _tell_group(self, offsets: Offsets) -> None:
        """Without waiting: nothing depends on it, and what is told next time is newer."""
        group = self.options.client.group_id
        if group is None or (self._telling is not None and not self._telling.done()):
            return
        if self._telling is not None and (error := self._telling.exception()) is not None:
            _log.warning("offsets were not committed to the group %s: %s", group, error)
            self._told = {}
        self._telling = None
        if news := {place: offset for place, offset in offsets.items() if self._told.get(place) != offset}:
            self._told = dict(offsets)
            self._telling = loop_thread.start(cluster_of(self.options.client).commit_offsets(group, news))

    def _wait_until_told(self) -> None:
        if self._telling is not None:
            try:
                self._telling.result(_SHOWING_PROGRESS_S)
            except Exception as error:
                _log.warning("the last offsets were not committed to the group: %s", error)

    def stop(self) -> None:
        self._wait_until_told()


def _no_further(ends: Offsets, begins: Offsets, target: Offsets, start: Offsets) -> Offsets:
    """Partitions that have come since the target was set wait for the next run."""
    return {
        place: min(end, target[place]) if place in target else begins[place]
        for place, end in ends.items()
        if place in target or place in start
    }


def _is_another(topic: str, ids: dict[str, UUID | None], topics: dict[str, Topic]) -> bool:
    return _are_different(ids, ids_of(topics), topic)


def _are_different(before: dict[str, UUID | None], after: dict[str, UUID | None], topic: str) -> bool:
    """A checkpoint that does not know ids (that of the official source) is trusted."""
    return before.get(topic) is not None and after.get(topic) is not None and before[topic] != after[topic]
