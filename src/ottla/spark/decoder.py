"""Fetched record batches into Arrow, with the columns of the official Kafka source.

Headers of batches are looked at in one loop, their checksums and their compression one batch at a time by the libraries
for that, and all records of a piece in one more loop (`kernels.py`). Nothing here is done record by record in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from ottla.env.ports import Buffer
from ottla.log.cleaning.kernels import DAMAGED, SHORTEST_RECORD
from ottla.model.names import TopicPartition
from ottla.record.batch import CODEC_MASK, CRC_START
from ottla.record.compression import decompress
from ottla.record.reader import DECOMPRESSED_LIMIT
from ottla.record.records import CorruptBatch
from ottla.spark import kernels

PIECE_BYTES: Final = 32 << 20
"""About how many bytes of plain records become one Arrow batch at most: compressed ones may be many times as large as
what was fetched."""
EVERYTHING: Final = (1 << 63) - 1

_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_COLUMNS: Final = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
]
SCHEMA: Final = pa.schema(_COLUMNS)
SCHEMA_WITH_HEADERS: Final = pa.schema([*_COLUMNS, ("headers", pa.list_(_HEADER))])

_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_SMALLEST_BATCH: Final = 61
_NO_ENDS: Final = np.zeros(1, dtype=np.int32)


class Aborted(NamedTuple):
    """A transaction that was aborted, as an answer to Fetch tells of it."""

    producer_id: int
    first_offset: int


class Decoded(NamedTuple):
    batches: Iterator[pa.RecordBatch]
    """Made when they are asked for: the next fetch can be under way meanwhile."""
    next_offset: int
    """Where to go on: behind the last whole batch, whether or not it had records for anybody. The offset that was asked
    for if there was no whole batch."""


class Decoder:
    """For one partition; an answer to Fetch is one call of `decode`."""

    def __init__(self, place: TopicPartition, *, headers: bool = False, check_crcs: bool = True) -> None:
        self._place = place
        self._headers = headers
        self._check_crcs = check_crcs

    def decode(
        self, records: Buffer, from_offset: int, until_offset: int = EVERYTHING, aborted: Sequence[Aborted] = ()
    ) -> Decoded:
        """`aborted` is the list of the same answer; none if everything is to be read (read_uncommitted).

        CorruptBatch, here or while batches are made, if the bytes are damaged.
        """
        view = memoryview(records).toreadonly()
        data = np.frombuffer(view, dtype=np.uint8)
        table, numbers = self._listed(data, from_offset, until_offset, aborted)
        next_offset = until_offset if numbers[kernels.IS_DONE] else int(numbers[kernels.NEXT_OFFSET])
        return Decoded(self._batches(view, data, table, from_offset, until_offset), min(next_offset, until_offset))

    def _batches(
        self, view: memoryview, data: Any, table: Any, from_offset: int, until_offset: int
    ) -> Iterator[pa.RecordBatch]:
        if self._check_crcs:
            self._check(view, table)
        for piece in self._pieces(view, data, table):
            if (batch := self._columns(piece, from_offset, until_offset)) is not None:
                yield batch

    def _listed(self, data: Any, from_offset: int, until_offset: int, aborted: Sequence[Aborted]) -> tuple[Any, Any]:
        in_order = np.array(sorted(aborted, key=lambda one: one.first_offset), dtype=np.int64).reshape(-1, 2)
        open_ids = np.empty(len(aborted), dtype=np.int64)
        table = np.empty((min(256, data.size // _SMALLEST_BATCH + 1), kernels.BATCH_NUMBERS), dtype=np.int64)
        numbers = np.zeros(kernels.LIST_NUMBERS, dtype=np.int64)
        numbers[kernels.NEXT_OFFSET] = from_offset
        while True:
            before = numbers.copy()
            open_before = open_ids.copy()
            ended = kernels.list_batches(data, data.size, from_offset, until_offset, in_order, open_ids, table, numbers)
            if ended != kernels.TABLE_FULL:
                break
            numbers, open_ids = before, open_before
            table = np.empty((data.size // _SMALLEST_BATCH + 1, kernels.BATCH_NUMBERS), dtype=np.int64)
        if ended == kernels.OLD_FORMAT:
            raise CorruptBatch(
                f"{self._place} has records in a format from before Kafka 0.11 at offset {numbers[kernels.NEXT_OFFSET]}"
                " or later, which cannot be read here; records that are written anew (by copying the topic) can"
            )
        if ended == DAMAGED:
            raise self._damaged(f"what follows offset {numbers[kernels.NEXT_OFFSET] - 1} is no record batch")
        return table[: numbers[kernels.BATCHES]], numbers

    def _check(self, view: memoryview, table: Any) -> None:
        starts, ends = table[:, kernels.BATCH_START].tolist(), table[:, kernels.END].tolist()
        for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if crc32c(view[start + CRC_START : end]) != _CRC.unpack_from(view, start + _CRC_AT)[0]:
                offset = table[row, kernels.BASE_OFFSET]
                raise self._damaged(f"the batch at offset {offset} does not match its checksum")

    def _damaged(self, what: str) -> CorruptBatch:
        return CorruptBatch(f"records of {self._place} are damaged: {what}")

    def _pieces(self, view: memoryview, data: Any, table: Any) -> Iterator[tuple[Any, Any]]:
        """Bytes and the batches in them, none of them compressed any more."""
        codecs = table[:, kernels.ATTRIBUTES] & CODEC_MASK
        if not codecs.any():
            if len(table):
                yield data, table
            return
        bodies: list[Buffer] = []
        size, first = 0, 0
        for row in range(len(table)):
            start, end = int(table[row, kernels.START]), int(table[row, kernels.END])
            body: Buffer = view[start:end]
            if codecs[row]:
                offset = int(table[row, kernels.BASE_OFFSET])
                try:
                    body = decompress(int(codecs[row]), body, limit=DECOMPRESSED_LIMIT)
                except CorruptBatch as error:
                    raise self._damaged(f"the batch at offset {offset}: {error}") from None
                if table[row, kernels.RECORDS] * SHORTEST_RECORD > len(body):
                    raise self._damaged(f"the batch at offset {offset} says it has more records than fit into it")
            if bodies and size + len(body) > PIECE_BYTES:
                yield np.frombuffer(b"".join(bodies), dtype=np.uint8), table[first:row]
                bodies, size, first = [], 0, row
            table[row, kernels.START], table[row, kernels.END] = size, size + len(body)
            bodies.append(body)
            size += len(body)
        yield np.frombuffer(b"".join(bodies), dtype=np.uint8), table[first:]

    def _columns(self, piece: tuple[Any, Any], from_offset: int, until_offset: int) -> pa.RecordBatch | None:
        data, table = piece
        room = int(table[:, kernels.RECORDS].sum())
        size = int((table[:, kernels.END] - table[:, kernels.START]).sum())
        keys, values = _Bytes(room, size), _Bytes(room, size)
        names, contents = (_Bytes(size // 2, size), _Bytes(size // 2, size)) if self._headers else (_NONE, _NONE)
        header_ends = np.zeros(room + 1, dtype=np.int32) if self._headers else _NO_ENDS
        offsets, timestamps = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        types = np.empty(room, dtype=np.int32)
        fill = np.zeros(kernels.FILL_NUMBERS, dtype=np.int64)
        damaged = kernels.fill_columns(
            data, table, len(table), from_offset, until_offset, self._headers, offsets, timestamps, types,
            keys.ends, keys.data, keys.there, values.ends, values.data, values.there,
            header_ends, names.ends, names.data, contents.ends, contents.data, contents.there, fill,
        )  # fmt: skip
        if damaged >= 0:
            raise self._damaged(f"records of the batch at offset {table[damaged, kernels.BASE_OFFSET]} cannot be read")
        rows = int(fill[kernels.ROWS])
        if not rows:
            return None
        arrays = [
            keys.array(rows, int(fill[kernels.KEY_BYTES])),
            values.array(rows, int(fill[kernels.VALUE_BYTES])),
            pa.repeat(pa.scalar(self._place.topic), rows),
            pa.repeat(pa.scalar(self._place.partition, pa.int32()), rows),
            _numbers(pa.int64(), offsets, rows),
            _numbers(pa.timestamp("us", tz="UTC"), timestamps, rows),
            _numbers(pa.int32(), types, rows),
        ]
        if not self._headers:
            return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        count = int(fill[kernels.HEADERS])
        header = pa.StructArray.from_arrays(
            [
                _as_text(names.array(count, int(fill[kernels.NAME_BYTES]), nullable=False)),
                contents.array(count, int(fill[kernels.HEADER_BYTES])),
            ],
            fields=list(_HEADER),
        )
        ends = header_ends[: rows + 1]
        without = _bits(np.diff(ends) != 0)  # no headers are null, as the official source has it
        lists = pa.Array.from_buffers(pa.list_(_HEADER), rows, [without, pa.py_buffer(ends)], children=[header])
        return pa.RecordBatch.from_arrays([*arrays, lists], schema=SCHEMA_WITH_HEADERS)


class _Bytes:
    """A binary column that is being filled."""

    __slots__ = ("data", "ends", "there")

    def __init__(self, rows: int, size: int) -> None:
        self.ends = np.zeros(rows + 1, dtype=np.int32)
        self.data = np.empty(size, dtype=np.uint8)
        self.there = np.empty(rows, dtype=np.bool_)

    def array(self, rows: int, size: int, *, nullable: bool = True) -> Any:
        there = _bits(self.there[:rows]) if nullable else None
        buffers = [there, pa.py_buffer(self.ends[: rows + 1]), pa.py_buffer(self.data[:size])]
        return pa.Array.from_buffers(pa.binary(), rows, buffers)


_NONE: Final = _Bytes(0, 0)


def _bits(there: Any) -> Any:
    """Arrow's bitmap of what is not null; None if all is there."""
    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))


def _numbers(kind: pa.DataType, values: Any, rows: int) -> Any:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values[:rows])])


def _as_text(names: Any) -> Any:
    """Names of headers; bytes that are no UTF-8 are replaced as in Java, so that they do not hide a record."""
    different = names.dictionary_encode()
    text = pa.array([name.decode(errors="replace") for name in different.dictionary.to_pylist()], pa.string())
    return text.take(different.indices)
