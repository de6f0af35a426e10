"""`format("ottla")`: what Spark calls.

Spark makes these objects several times, in several processes, and sends them around: they hold options and nothing
else. What costs an import (numba above all) is imported where records are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ottla.model.errors import OttlaError
from ottla.spark import loop_thread
from ottla.spark.cluster import LATEST
from ottla.spark.formats.columns import KEPT, UNDECODABLE, column_type, keeps_undecodable
from ottla.spark.looking_up import bounds, resolved, wanted_partitions, wanted_topics
from ottla.spark.planning import Range, tasks
from ottla.spark.reading import Reading, cluster_of, read_ranges, report_loss
from ottla.spark.sink_options import Delivery, sink_options
from ottla.spark.source_options import SourceOptions, by_name, has_headers, source_options
from ottla.spark.tier_planning import through_the_tier

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.sink import BatchWriter, StreamWriter
    from ottla.spark.stream import StreamReader

_REST = "topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT"
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"


class OttlaDataSource(DataSource):
    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = dict(options)

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> str:
        given = by_name(self.options)
        read = ", ".join(f"{name} {column_type(name, given)}" for name in ("key", "value"))
        kept = f", {UNDECODABLE} {KEPT}" if keeps_undecodable(given) else ""
        return f"{read}, {_REST}" + (_HEADERS if has_headers(given) else "") + kept

    def reader(self, schema: Any) -> BatchReader:
        return BatchReader(source_options(self.options, batch=True, schema=schema))

    def streamReader(self, schema: Any) -> StreamReader:
        from ottla.spark.stream import StreamReader

        return StreamReader(source_options(self.options, batch=False, schema=schema))

    def writer(self, schema: Any, overwrite: bool) -> BatchWriter:
        from ottla.spark.sink import BatchWriter

        if overwrite:
            raise OttlaError("records cannot be overwritten; mode append writes behind those that are there")
        return BatchWriter(sink_options(self.options, schema, Delivery.AT_LEAST_ONCE))

    def streamWriter(self, schema: Any, overwrite: bool) -> StreamWriter:
        from ottla.spark.sink import StreamWriter

        return StreamWriter(sink_options(self.options, schema, Delivery.EXACTLY_ONCE))


class Task(InputPartition):
    """What one task of Spark reads."""

    def __init__(self, ranges: list[Range]) -> None:
        super().__init__(None)
        self.ranges = ranges


def reading_of(options: SourceOptions) -> Reading:
    return Reading(
        options.client,
        options.headers,
        options.fail_on_data_loss,
        options.poll_timeout_s,
        options.decoded,
        options.tier,
    )


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[Task]:
        ranges = loop_thread.wait_for(self._ranges())
        return [Task(own) for own in tasks(ranges, self.options.min_partitions, self.options.max_records)] or [Task([])]

    async def _ranges(self) -> list[Range]:
        options, cluster = self.options, cluster_of(self.options.client)
        topics = await wanted_topics(cluster, options, must_be_there=True)
        places = wanted_partitions(options, topics)
        later = LATEST if options.later_than_all_is_latest else None
        start = await resolved(cluster, options.starting, places, later_than_all=later)
        end = await resolved(cluster, options.ending, places, later_than_all=LATEST)
        first, last = await bounds(cluster, places)
        ranges = []
        for place in places:
            begins, ends = start[place], end[place]
            if begins > ends:
                raise OttlaError(f"{place}: reading is to begin at offset {begins}, and to end before it, at {ends}")
            if begins < min(first[place], ends) or ends > last[place]:
                report_loss(
                    f"{place} has offsets {first[place]} to {last[place]} and not all of {begins} to {ends}",
                    fails=options.fail_on_data_loss,
                )
            ranges.append(Range(place, max(begins, first[place]), min(ends, last[place]), topics[place.topic].id))
        return await through_the_tier(cluster, options.tier, ranges)

    def read(self, partition: Task) -> Iterator[pa.RecordBatch]:
        return read_ranges(reading_of(self.options), partition.ranges)
