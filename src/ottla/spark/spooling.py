"""How record batches get from the tasks that make them to those that send them, on one machine: by files.

With the master `local[*]` all tasks are on the driver's machine. What one task has put into a file another maps into
its memory; Java sees only the list. A task that is started twice writes two files, and the list names one of them.
"""

from __future__ import annotations

import mmap
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.model.names import TopicPartition
from ottla.spark import loop_thread
from ottla.spark.encoder import Encoded
from ottla.spark.parcels import in_sequence, lane_of
from ottla.spark.producing import Identity, Producer
from ottla.spark.reading import cluster_of
from ottla.spark.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA: Final = "task INT, number INT, topic STRING, partition INT, records INT, file STRING, start BIGINT, size INT"


class Spooled(NamedTuple):
    """A record batch in a file."""

    task: int
    number: int
    topic: str
    partition: int
    records: int
    file: str
    start: int
    size: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def is_one_machine(context: Any) -> bool:
    return str(context.master).startswith("local")


def new_folder() -> Path:
    """Below that of Spark, which removes it when it ends."""
    from pyspark import SparkFiles

    return Path(tempfile.mkdtemp(prefix="ottla-", dir=SparkFiles.getRootDirectory()))


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def spool(options: SinkOptions, folder: str, now_ms: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow."""
    import pyarrow as pa
    from pyspark import TaskContext

    from ottla.spark.writing import Always, encoded

    context = TaskContext.get()
    assert context is not None
    task, found = context.partitionId(), list[Spooled]()
    path = Path(folder) / f"{task}-{context.taskAttemptId()}"
    with path.open("wb") as file:
        for batches in encoded(options, rows, Always(now_ms, task)):
            for place, records, data in batches:
                start = file.tell()
                file.write(data)
                found.append(Spooled(task, len(found), *place, records, str(path), start, len(data)))
    if found:
        yield pa.RecordBatch.from_pylist([one._asdict() for one in found], schema=_schema())


def _schema() -> Any:
    import pyarrow as pa

    kinds = {"INT": pa.int32(), "BIGINT": pa.int64(), "STRING": pa.string()}
    return pa.schema([(name, kinds[kind]) for name, kind in (column.split() for column in SCHEMA.split(", "))])


Lane = list[tuple[Spooled, int]]
"""What one task sends, in its order, with the place of each in the sequence of its partition."""


def lanes_of(spooled: Iterable[Spooled], count: int) -> list[Lane]:
    lanes: list[Lane] = [[] for _ in range(count)]
    for one, sequence in in_sequence(spooled):
        lanes[lane_of(one.place, count)].append((one, sequence))
    return [lane for lane in lanes if lane]


def send_lane(settings: Any, identity: Identity, lane: Lane) -> None:
    producer = Producer.with_identity(cluster_of(settings), identity)
    files = {name: _mapped(name) for name in {one.file for one, _ in lane}}
    loop_thread.wait_for(_send(producer, lane, files))


def _mapped(name: str) -> memoryview:
    with open(name, "rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))


async def _send(producer: Producer, lane: Lane, files: dict[str, memoryview]) -> None:
    import asyncio

    by_place: dict[TopicPartition, Lane] = defaultdict(list)
    for one, sequence in lane:
        by_place[one.place].append((one, sequence))

    async def in_order(place: TopicPartition, own: Lane) -> None:
        for one, sequence in own:
            data = files[one.file][one.start : one.start + one.size]
            await producer.send_at(Encoded(place, one.records, data), sequence)

    await asyncio.gather(*(in_order(place, own) for place, own in by_place.items()))
