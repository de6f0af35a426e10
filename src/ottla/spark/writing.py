"""Rows of a task into record batches, and these to brokers: at once by the task, or by the driver for a whole batch."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.model.near_miss import did_you_mean
from ottla.spark import loop_thread
from ottla.spark.cluster import Cluster
from ottla.spark.encoder import Encoded, Encoder
from ottla.spark.formats import columns
from ottla.spark.producing import Marker, Producer
from ottla.spark.reading import cluster_of
from ottla.spark.sink_options import Delivery, SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa


class Always(NamedTuple):
    """For tasks that make the same bytes of the same rows whenever they run."""

    now_ms: int
    anywhere: int


def encoded(
    options: SinkOptions, rows: Iterator[pa.RecordBatch], always: Always | None = None
) -> Iterator[list[Encoded]]:
    """For each Arrow batch."""
    gc.freeze()
    cluster = cluster_of(options.client)
    transactional = options.delivery is Delivery.EXACTLY_ONCE
    encoder = Encoder(options.topic, codec=options.client.codec, transactional=transactional)
    partitions: dict[str, int] = {}
    for number, batch in enumerate(rows):
        if not batch.num_rows:
            continue
        if new := [topic for topic in encoder.topics(batch) if topic not in partitions]:
            partitions |= loop_thread.wait_for(_partitions(cluster, new))
        # rows without key: another partition for each Arrow batch
        anywhere = random.randrange(1 << 30) if always is None else always.anywhere + number
        now_ms = time.time_ns() // 1_000_000 if always is None else always.now_ms
        yield list(encoder.encode(columns.encoded(options.encoded, batch), partitions, now_ms, anywhere))


async def _partitions(cluster: Cluster, names: list[str]) -> dict[str, int]:
    found = await cluster.topics(names)
    if missing := [name for name in names if name not in found]:
        hint = did_you_mean(missing[0], await cluster.topics())
        raise OttlaError(f"cannot write to topic {missing[0]}, which is not there{hint}")
    return {name: len(topic.leaders) for name, topic in found.items()}


def send_all(options: SinkOptions, rows: Iterator[pa.RecordBatch]) -> int:
    """At least once: what a task that fails has sent stays, and is sent again by the next that Spark starts for it."""
    producer = Producer(cluster_of(options.client))
    under_way: Future[None] | None = None
    count = 0
    for batches in encoded(options, rows):
        if under_way is None:
            loop_thread.wait_for(producer.begin())
        else:
            under_way.result()
        under_way = loop_thread.start(producer.send(batches))
        count += sum(batch.records for batch in batches)
    if under_way is not None:
        under_way.result()
    return count


async def commit_batch(cluster: Cluster, transactional_id: str, marker: Marker | None, batches: list[Encoded]) -> bool:
    """All of a micro-batch in one transaction, with its marker; False if that batch is there already."""
    producer = Producer(cluster, transactional_id)
    await producer.begin()
    if marker is not None:
        last = await producer.last_batch(marker.query_id)
        if last is not None and last >= marker.batch_id:
            return False
    if not batches:
        return True
    try:
        await producer.send(batches)
        if marker is not None:
            await producer.mark(marker, TopicPartition(batches[0].place.topic, 0))
    except BaseException:
        with suppress(OttlaError):  # if it cannot be aborted here, the next to begin does, or its timeout
            await producer.end(commit=False)
        raise
    await producer.end(commit=True)
    return True
