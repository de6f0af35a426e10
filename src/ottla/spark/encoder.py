"""Rows of Arrow into record batches: which partition each row goes to, and the bytes that a broker stores.

A batch is made without a producer: who sends it says with `sealed` for whom, and in which place of the sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from ottla.env.ports import Buffer
from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.record.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    TRANSACTIONAL_BIT,
    Codec,
)
from ottla.record.compression import compress
from ottla.spark import encoder_kernels

BATCH_BYTES: Final = 900_000
"""Of records, before they are compressed: a broker takes 1 MiB unless it is told otherwise."""

_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_AT: Final = 43
_LARGEST_OVERHEAD: Final = 64  # what the numbers of one record may take


class Encoded(NamedTuple):
    """A batch for one partition."""

    place: TopicPartition
    records: int
    data: Buffer


class _Column(NamedTuple):
    """A column of bytes as the loops want it."""

    ends: Any
    data: Any
    there: Any


def _read_only(array: Any) -> Any:
    """Always: loops are compiled once for arrays that may be written to, and once more for others."""
    array.setflags(write=False)
    return array


def _column(ends: Any, data: Any, there: Any) -> _Column:
    return _Column(_read_only(ends), _read_only(data), _read_only(there))


def _empty(rows: int) -> _Column:
    return _column(np.zeros(rows + 1, np.int32), np.empty(0, np.uint8), np.zeros(rows, np.bool_))


_NO_HEADERS: Final = (_read_only(np.zeros(1, dtype=np.int32)), _empty(0), _empty(0))


class Encoder:
    """`topic` is where all rows go; without it the column topic says where each does."""

    def __init__(
        self,
        topic: str | None,
        *,
        codec: Codec = Codec.NONE,
        transactional: bool = False,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        self._topic = topic
        self._batch_bytes = batch_bytes
        self._codec = codec
        self._attributes = int(codec) | (TRANSACTIONAL_BIT if transactional else 0)

    def topics(self, rows: pa.RecordBatch) -> list[str]:
        """Those that rows go to, for who must ask how many partitions they have."""
        if self._topic is not None:
            return [self._topic]
        column = rows.column("topic")
        if column.null_count:
            raise OttlaError("a row has no topic: the column topic is null, and there is no option topic")
        return [str(name) for name in column.unique().to_pylist()]

    def encode(
        self, rows: pa.RecordBatch, partitions: Mapping[str, int], now_ms: int, without_key: int = 0
    ) -> Iterator[Encoded]:
        """In each partition the order of rows stays.

        `partitions` says how many each topic has. Rows that name none go where their key says, those without key to
        the one that `without_key` says.
        """
        if not rows.num_rows:
            return
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        keys, values = _bytes(columns.get("key"), rows.num_rows), _bytes(columns["value"], rows.num_rows)
        headers = _headers(columns.get("headers"))
        for topic, own in self._by_topic(columns, rows.num_rows):
            places = self._places(topic, own, columns, keys, partitions[topic], without_key)
            for partition, chosen in _by_partition(places, own):
                place = TopicPartition(topic, partition)
                yield from self._batches(place, chosen, keys, values, headers, now_ms)

    def _by_topic(self, columns: dict[str, Any], count: int) -> Iterator[tuple[str, Any]]:
        if self._topic is not None:
            yield self._topic, None
            return
        encoded = columns["topic"].dictionary_encode()
        numbers = encoded.indices.to_numpy(zero_copy_only=False)
        for number, name in enumerate(encoded.dictionary.to_pylist()):
            yield name, np.flatnonzero(numbers == number)

    def _places(
        self, topic: str, own: Any, columns: dict[str, Any], keys: _Column, count: int, without_key: int
    ) -> Any:
        """Of all rows; those that are not the topic's own count for nothing."""
        if "partition" in columns:
            said = columns["partition"]
            places = said.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
            wrong = (places >= count) | ((places < 0) & said.is_valid().to_numpy(zero_copy_only=False))
            if (told := places[wrong if own is None else own[wrong[own]]]).size:
                raise OttlaError(f"a row names partition {told[0]} of topic {topic}, which has {count}")
        else:
            places = np.full(keys.there.size, -1, dtype=np.int32)
        encoder_kernels.place_by_key(keys.ends, keys.data, keys.there, count, without_key % count, places)
        return places

    def _batches(
        self, place: TopicPartition, rows: Any, keys: _Column, values: _Column, headers: Any, now_ms: int
    ) -> Iterator[Encoded]:
        header_ends, names, contents = headers
        columns: tuple[Any, ...] = (*keys, *values, header_ends, names.ends, names.data, *contents)
        target, first = np.empty(self._batch_bytes, dtype=np.uint8), 0
        while first < rows.size:
            end, size = encoder_kernels.write_records(rows, first, self._batch_bytes, target, *columns)
            if not size:  # one record is larger than all that has room
                room = _largest(rows[first], keys, values, header_ends, names, contents)
                target = np.empty(room, dtype=np.uint8)
                continue
            yield Encoded(place, int(end - first), self._batch(target[:size], int(end - first), now_ms))
            first = end

    def _batch(self, records: Any, count: int, now_ms: int) -> bytearray:
        body = memoryview(records) if self._codec is Codec.NONE else compress(self._codec, memoryview(records))
        made = bytearray(HEADER_SIZE + len(body))
        length = len(made) - LOG_OVERHEAD
        HEADER.pack_into(
            made, 0, 0, length, -1, MAGIC_V2, 0, self._attributes, count - 1, now_ms, now_ms, -1, -1, -1, count
        )
        made[HEADER_SIZE:] = body
        return made


def sealed(batch: Buffer, producer_id: int, epoch: int, sequence: int) -> tuple[bytes, memoryview]:
    """The batch as one of a producer's, in two pieces: a new header, and the records where they are."""
    head, records = bytearray(batch[:HEADER_SIZE]), memoryview(batch)[HEADER_SIZE:]
    _PRODUCER.pack_into(head, _PRODUCER_AT, producer_id, epoch, sequence)
    _CRC.pack_into(head, _CRC_AT, crc32c(records, crc32c(head[CRC_START:])))
    return bytes(head), records


def _by_partition(places: Any, own: Any) -> Iterator[tuple[int, Any]]:
    """The rows of each partition, in their order; `own` are the rows that count, None for all."""
    rows = np.arange(places.size) if own is None else own
    there = places[rows]
    order = np.argsort(there, kind="stable")
    rows, there = rows[order], there[order]
    bounds = np.flatnonzero(np.diff(there)) + 1
    for chosen in np.split(rows, bounds):
        if chosen.size:
            yield int(places[chosen[0]]), chosen


def _largest(row: int, keys: _Column, values: _Column, header_ends: Any, names: _Column, contents: _Column) -> int:
    """Room enough for a record."""
    size = _LARGEST_OVERHEAD + sum(int(one.ends[row + 1] - one.ends[row]) for one in (keys, values))
    if header_ends.size > 1:
        begin, end = int(header_ends[row]), int(header_ends[row + 1])
        size += sum(int(one.ends[end] - one.ends[begin]) for one in (names, contents))
        size += _LARGEST_OVERHEAD * (end - begin)
    return size


def _bytes(column: Any, rows: int) -> _Column:
    if column is None:
        return _empty(rows)
    plain = column if column.type == pa.binary() else column.cast(pa.binary())
    _, ends, data = plain.buffers()
    return _column(
        np.frombuffer(ends, dtype=np.int32)[plain.offset : plain.offset + rows + 1],
        np.frombuffer(b"" if data is None else data, dtype=np.uint8),
        plain.is_valid().to_numpy(zero_copy_only=False),
    )


def _headers(column: Any) -> tuple[Any, _Column, _Column]:
    if column is None or column.null_count == len(column):
        return _NO_HEADERS
    entries = column.values
    if entries.field(0).null_count:
        raise OttlaError("a header has no key: the key of an entry in the column headers is null")
    ends = _read_only(column.offsets.to_numpy(zero_copy_only=False))
    return ends, _bytes(entries.field(0), len(entries)), _bytes(entries.field(1), len(entries))
