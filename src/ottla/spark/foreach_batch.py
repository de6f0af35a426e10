"""Executors write a stream in parallel, exactly once: `frame.writeStream.foreachBatch(exactly_once(options)).start()`.

A micro-batch is one transaction. The driver begins it, which fences whoever wrote before, and looks whether the batch
is there already. Tasks make record batches of the rows, which are kept: in files where all is on one machine
(`spooling.py`), else by Spark. The driver lists them, which fixes what comes where in each partition. Then tasks send
them, each partition's by one, under the driver's producer id; and the driver commits, together with the batch's number.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.spark import loop_thread
from ottla.spark.parcels import Changed, Manifest, Parcel, lane_of
from ottla.spark.producing import Identity, Marker, Producer
from ottla.spark.reading import cluster_of
from ottla.spark.sink_options import Delivery, SinkOptions, sink_options, transactional_id
from ottla.spark.spooling import SCHEMA as SPOOLED
from ottla.spark.spooling import Spooled, is_one_machine, lanes_of, new_folder, remove, send_lane, spool

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("ottla.spark")
QUERY_ID: Final = "sql.streaming.queryId"
_LISTED: Final = ("task", "number", "topic", "partition", "records", "digest")
_PARCELS: Final = "task INT, number INT, topic STRING, partition INT, records INT, digest BIGINT, lane INT, data BINARY"
_SENT: Final = "task INT, number INT"
_UNDER_WAY: Final = 16 << 20  # bytes that a task sends while it takes the next from Spark
_TIMES: Final = 3


def exactly_once(options: Mapping[str, str]) -> Callable[[Any, int], None]:
    """For foreachBatch, with the options of `format("ottla")`."""

    def write(frame: Any, batch_id: int) -> None:
        found = sink_options(options, frame.schema, Delivery.EXACTLY_ONCE)
        if found.delivery is not Delivery.EXACTLY_ONCE:
            raise OttlaError('exactly_once() cannot write with delivery=at-least-once; writeStream.format("ottla") can')
        write_once(found, frame, Marker(_query_id(frame), batch_id))

    return write


def write_once(options: SinkOptions, frame: Any, marker: Marker) -> None:
    """For who gives batches a name and a number of his own."""
    for time_left in reversed(range(_TIMES)):
        try:
            return _write(options, frame, marker)
        except Exception as error:
            if not time_left or Changed.__name__ not in str(error):
                raise
            _log.warning("batch %d begins anew: %s", marker.batch_id, error)


def _query_id(frame: Any) -> str:
    try:
        found = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    except Exception:  # Spark Connect has no context
        found = None
    if not found:
        raise OttlaError(
            "Spark does not say here which query this is, without which a repeated batch cannot be recognised. With "
            'Spark Connect, writeStream.format("ottla") writes exactly once'
        )
    return str(found)


def _write(options: SinkOptions, frame: Any, marker: Marker) -> None:
    producer = Producer(cluster_of(options.client), transactional_id(options, marker.query_id))
    loop_thread.wait_for(producer.begin())
    last = loop_thread.wait_for(producer.last_batch(marker.query_id))
    if last is not None and last >= marker.batch_id:
        _log.warning(
            "batch %d of query %s is there already and was not written again", marker.batch_id, marker.query_id
        )
        return
    send = _send_by_files if is_one_machine(frame.sparkSession.sparkContext) else _send_by_shuffle
    if places := send(options, frame, producer):
        loop_thread.wait_for(producer.mark(marker, TopicPartition(min(places).topic, 0)))
        loop_thread.wait_for(producer.end(commit=True))


def _send_by_files(options: SinkOptions, frame: Any, producer: Producer) -> set[TopicPartition]:
    context, now_ms = frame.sparkSession.sparkContext, _now_ms()
    folder = new_folder()
    try:
        where = str(folder)
        rows = frame.mapInArrow(lambda batches: spool(options, where, now_ms, batches), SPOOLED).collect()
        spooled = [Spooled(*row) for row in rows]
        places = {one.place for one in spooled}
        if places:
            lanes = lanes_of(spooled, context.defaultParallelism)
            settings, identity = producer.settings, producer.identity
            with _all_or_nothing(producer, places):
                context.parallelize(lanes, len(lanes)).foreach(lambda lane: send_lane(settings, identity, lane))
        return places
    finally:
        remove(folder)


def _send_by_shuffle(options: SinkOptions, frame: Any, producer: Producer) -> set[TopicPartition]:
    lanes = frame.sparkSession.sparkContext.defaultParallelism
    parcels = frame.mapInArrow(_packing(options, lanes), _PARCELS).persist()
    try:
        manifest = Manifest(Parcel(*row) for row in parcels.select(*_LISTED).collect())
        if manifest.places:
            sending = _sending(producer.settings, producer.identity, manifest)
            by_lane = parcels.repartitionById(lanes, "lane").sortWithinPartitions("task", "number")
            with _all_or_nothing(producer, manifest.places):
                sent = by_lane.mapInArrow(sending, _SENT).collect()
                manifest.check_all_sent((row.task, row.number) for row in sent)
        return manifest.places
    finally:
        parcels.unpersist()


@contextmanager
def _all_or_nothing(producer: Producer, places: set[TopicPartition]) -> Iterator[None]:
    """For the time in which tasks send to these partitions."""
    loop_thread.wait_for(producer.add_partitions(places))
    try:
        yield
    except BaseException:
        with suppress(OttlaError):
            loop_thread.wait_for(producer.abandon())  # tasks may still run
        raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _packing(options: SinkOptions, lanes: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    now_ms = _now_ms()

    def pack(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark import TaskContext
        from xxhash import xxh3_64_intdigest

        from ottla.spark.writing import Always, encoded

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        number = 0
        for batches in encoded(options, rows, Always(now_ms, task)):
            found: dict[str, list[Any]] = defaultdict(list)
            for batch in batches:
                found["task"].append(task)
                found["number"].append(number)
                found["topic"].append(batch.place.topic)
                found["partition"].append(batch.place.partition)
                found["records"].append(batch.records)
                found["digest"].append(xxh3_64_intdigest(batch.data) >> 1)
                found["lane"].append(lane_of(batch.place, lanes))
                found["data"].append(bytes(batch.data))
                number += 1
            yield pa.record_batch([pa.array(found[name], kind) for name, kind in _types()], names=list(dict(_types())))

    return pack


def _types() -> list[tuple[str, Any]]:
    import pyarrow as pa

    kinds = {"INT": pa.int32(), "BIGINT": pa.int64(), "STRING": pa.string(), "BINARY": pa.binary()}
    return [(name, kinds[kind]) for name, kind in (column.split() for column in _PARCELS.split(", "))]


def _sending(
    settings: Any, identity: Identity, manifest: Manifest
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def send(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        producer = Producer.with_identity(cluster_of(settings), identity)
        under_way: Future[None] | None = None
        for share in _shares(rows):
            if under_way is not None:
                under_way.result()
            under_way = loop_thread.start(_send_share(producer, manifest, share))
            numbers = ([parcel.task for parcel, _ in share], [parcel.number for parcel, _ in share])
            yield pa.record_batch([pa.array(column, pa.int32()) for column in numbers], names=["task", "number"])
        if under_way is not None:
            under_way.result()

    return send


Share = list[tuple[Parcel, bytes]]


def _shares(rows: Iterator[pa.RecordBatch]) -> Iterator[Share]:
    share: Share = []
    size = 0
    for batch in rows:
        columns = [batch.column(name).to_pylist() for name in (*_LISTED, "data")]
        for *listed, data in zip(*columns, strict=True):
            share.append((Parcel(*listed), data))
            size += len(data)
            if size >= _UNDER_WAY:
                yield share
                share, size = [], 0
    if share:
        yield share


async def _send_share(producer: Producer, manifest: Manifest, share: Share) -> None:
    import asyncio

    from ottla.spark.encoder import Encoded

    by_place: dict[TopicPartition, list[tuple[Parcel, bytes]]] = defaultdict(list)
    for parcel, data in share:
        by_place[parcel.place].append((parcel, data))

    async def in_order(place: TopicPartition, own: Share) -> None:
        for parcel, data in own:
            sequence = manifest.sequence_of(parcel)
            await producer.send_at(Encoded(place, parcel.records, bytearray(data)), sequence)

    await asyncio.gather(*(in_order(place, own) for place, own in by_place.items()))
