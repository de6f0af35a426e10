"""Fetched bytes into Arrow: the same records that the reader in plain Python finds, by the rules of a consumer."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from struct import pack
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.names import TopicPartition
from ottla.record.batch import Codec, TimestampType
from ottla.record.builder import build_batch
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import CorruptBatch, Record
from ottla.spark import decoder
from ottla.spark.decoder import SCHEMA, SCHEMA_WITH_HEADERS, Aborted, Decoder

PLACE = TopicPartition("events", 3)
Row = tuple[bytes | None, bytes | None, str, int, int, int, int, list[tuple[str, bytes | None]] | None]

some_bytes = st.none() | st.binary(max_size=20) | st.binary(min_size=100, max_size=300)
some_headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(tuple)
some_records = st.builds(
    Record, some_bytes, some_bytes, st.integers(1_600_000_000_000, 1_700_000_000_000), some_headers
)
some_batches = st.lists(
    st.tuples(
        st.lists(some_records, min_size=1, max_size=30),
        st.sampled_from(Codec),
        st.sampled_from(TimestampType),
        st.integers(0, 5),  # offsets that compaction has left out before it
    ),
    max_size=6,
)


def log_of(batches: Iterable[tuple[list[Record], Codec, TimestampType, int]], first: int = 0) -> bytes:
    parts, offset = [], first
    for records, codec, timestamp_type, gap in batches:
        offset += gap
        parts.append(build_batch(records, base_offset=offset, codec=codec, timestamp_type=timestamp_type))
        offset += len(records)
    return b"".join(parts)


def by_the_reader(data: bytes, from_offset: int, until_offset: int, headers: bool) -> list[Row]:
    return [
        (
            record.key,
            record.value,
            PLACE.topic,
            PLACE.partition,
            record.offset,
            record.timestamp * 1000,
            header.attributes >> 3 & 1,
            list(record.headers) or None if headers else None,
        )
        for header, batch in iterate_batches(data)
        for record in read_records(batch)
        if from_offset <= record.offset < until_offset
    ]


def rows(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    found: list[Row] = []
    for batch in batches:
        batch.validate(full=True)
        times = batch.column("timestamp").cast(pa.int64()).to_pylist()
        others = batch.drop_columns(["timestamp"])  # damage may name a year that Python does not know
        for row, time in zip(others.to_pylist(), times, strict=True):
            headers = row.get("headers")
            found.append(
                (
                    row["key"],
                    row["value"],
                    row["topic"],
                    row["partition"],
                    row["offset"],
                    time,
                    row["timestampType"],
                    None if headers is None else [(header["key"], header["value"]) for header in headers],
                )
            )
    return found


@given(some_batches, st.integers(0, 60), st.integers(0, 200), st.booleans())
def test_records_are_those_that_the_reader_finds(batches: Any, start: int, more: int, headers: bool) -> None:
    data = log_of(batches)
    found = list(Decoder(PLACE, headers=headers).decode(data, start, start + more).batches)
    assert rows(found) == by_the_reader(data, start, start + more, headers)
    schema = SCHEMA_WITH_HEADERS if headers else SCHEMA
    assert all(batch.schema.equals(schema) for batch in found)


@given(some_batches, st.integers(0, 60), st.integers(0, 400))
def test_what_is_cut_short_is_left_for_the_next_fetch(batches: Any, start: int, cut: int) -> None:
    data = log_of(batches)
    first = Decoder(PLACE).decode(data[: max(len(data) - cut, 0)], start)
    rest = Decoder(PLACE).decode(data, first.next_offset)
    assert rows([*first.batches, *rest.batches]) == by_the_reader(data, start, 1 << 60, False)


@given(st.binary(max_size=400))
def test_any_bytes_are_records_or_damaged(data: bytes) -> None:
    with suppress(CorruptBatch):
        rows(Decoder(PLACE, headers=True, check_crcs=False).decode(data, 0).batches)


@given(some_batches, st.data())
def test_damaged_bytes_are_not_read(batches: Any, draw: st.DataObject) -> None:
    data = bytearray(log_of(batches))
    if not data:
        return
    sound = rows(Decoder(PLACE, headers=True).decode(data, 0).batches)
    at = draw.draw(st.integers(0, len(data) - 1))
    data[at] ^= draw.draw(st.integers(1, 255))
    try:  # offsets and lengths of batches stand outside of what the checksum is of
        found = rows(Decoder(PLACE, headers=True).decode(data, 0).batches)
    except CorruptBatch:
        return
    contents = [row[:2] for row in sound]
    assert all(row[:2] in contents for row in found)


@given(some_batches, st.data())
def test_damage_that_no_checksum_shows_is_records_or_told_of(batches: Any, draw: st.DataObject) -> None:
    """Each batch is changed without its checksum being looked at: loops must not read beyond what they were given."""
    data = bytearray(log_of(batches))
    for _ in range(3 if data else 0):
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    with suppress(CorruptBatch):
        rows(Decoder(PLACE, headers=True, check_crcs=False).decode(data, 0).batches)


def marker(producer_id: int, offset: int, *, commit: bool) -> bytes:
    record = Record(pack(">hh", 0, int(commit)), pack(">hi", 0, 0), 5)
    return build_batch(
        [record], base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=True
    )


def written(producer_id: int, offset: int, value: bytes, count: int = 1) -> bytes:
    return build_batch(
        [Record(b"k", value, 5)] * count,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )


TRANSACTIONS = b"".join(
    (
        written(1, 0, b"a aborted"),
        written(2, 1, b"b committed"),
        build_batch([Record(None, b"plain", 5)], base_offset=2),
        marker(1, 3, commit=False),
        written(1, 4, b"c committed", 2),
        marker(2, 6, commit=True),
        written(2, 7, b"d aborted"),
        marker(1, 8, commit=True),
        written(1, 9, b"e aborted"),
        marker(2, 10, commit=False),
        marker(1, 11, commit=False),
        build_batch([Record(None, b"last", 5)], base_offset=12),
    )
)
COMMITTED = [b"b committed", b"plain", b"c committed", b"c committed", b"last"]


def test_records_of_aborted_transactions_are_left_out() -> None:
    aborted = [Aborted(1, 9), Aborted(1, 0), Aborted(2, 7)]  # in no order
    found = Decoder(PLACE).decode(TRANSACTIONS, 0, aborted=aborted)
    assert [row[1] for row in rows(found.batches)] == COMMITTED
    assert found.next_offset == 13


def test_without_a_list_all_but_markers_are_read() -> None:
    found = Decoder(PLACE).decode(TRANSACTIONS, 0)
    assert [row[4] for row in rows(found.batches)] == [0, 1, 2, 4, 5, 7, 9, 12]


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(["write", "write", "write", "commit", "abort", "plain"])),
        max_size=40,
    ),
    st.integers(0, 40),
)
def test_any_interleaving_of_transactions(events: list[tuple[int, str]], start: int) -> None:
    """Against a table of which transaction every record belongs to, and how that ended."""
    parts: list[bytes] = []
    begun: dict[int, list[int]] = {}
    hidden: set[int] = set()
    aborted: list[Aborted] = []
    wanted: list[int] = []
    closing = [(producer, "commit") for producer in (1, 2, 3)]
    for offset, (producer, event) in enumerate([*events, *closing]):
        if event == "plain":
            parts.append(build_batch([Record(None, b"v", 1)], base_offset=offset))
            wanted.append(offset)
        elif event == "write":
            parts.append(written(producer, offset, b"v"))
            begun.setdefault(producer, []).append(offset)
            wanted.append(offset)
        else:
            parts.append(marker(producer, offset, commit=event == "commit"))
            own = begun.pop(producer, [])
            if event == "abort" and own:
                hidden.update(own)
                if offset >= start:  # a broker tells of those that end behind where is fetched from
                    aborted.append(Aborted(producer, own[0]))
    first = sum(len(part) for part in parts[:start])
    found = Decoder(PLACE).decode(b"".join(parts)[first:], start, aborted=aborted)
    assert [row[4] for row in rows(found.batches)] == [n for n in wanted if n not in hidden and n >= start]


def test_offsets_that_only_compaction_knows_are_stepped_over() -> None:
    data = log_of([([Record(b"a", b"1", 1)], Codec.NONE, TimestampType.CREATE_TIME, 0)])
    data += log_of([([Record(b"b", b"2", 1)], Codec.NONE, TimestampType.CREATE_TIME, 50)])
    found = Decoder(PLACE).decode(data, 0, 20)
    assert [row[4] for row in rows(found.batches)] == [0]
    assert found.next_offset == 20


def test_a_batch_that_compaction_has_emptied_moves_on() -> None:
    whole = bytearray(build_batch([Record(b"a", b"1", 1)], base_offset=7))
    empty = whole[:61]
    empty[8:12] = pack(">i", 49)
    empty[57:61] = pack(">i", 0)
    found = Decoder(PLACE).decode(empty, 7)
    assert (list(found.batches), found.next_offset) == ([], 8)


def test_what_decompresses_to_much_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "PIECE_BYTES", 10_000)
    large = ([Record(b"k", b"x" * 3000, 1)] * 2, Codec.GZIP, TimestampType.CREATE_TIME, 0)
    data = log_of([large] * 5)
    found = Decoder(PLACE).decode(data, 0)
    batches = list(found.batches)
    assert [batch.num_rows for batch in batches] == [2, 2, 2, 2, 2]
    assert rows(batches) == by_the_reader(data, 0, 1 << 60, False)


def test_many_small_batches() -> None:
    data = log_of([([Record(b"k", b"v", 1)], Codec.NONE, TimestampType.CREATE_TIME, 0)] * 1000)
    aborted = [Aborted(9, 5)]
    assert rows(Decoder(PLACE).decode(data, 3, aborted=aborted).batches) == by_the_reader(data, 3, 1 << 60, False)


def test_header_names_that_are_no_utf_8() -> None:
    data = build_batch([Record(b"k", b"v", 1, (("héllo", b"1"), ("abc", None)))])
    broken = data.replace("héllo".encode(), b"h\xff\xfello")
    found = Decoder(PLACE, headers=True, check_crcs=False).decode(broken, 0)
    assert rows(found.batches)[0][7] == [("h��llo", b"1"), ("abc", None)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: data[:16] + b"\x01" + data[17:], "before Kafka 0.11"),
        (lambda data: data[:16] + b"\x07" + data[17:], "no record batch"),
        (lambda data: data[:8] + pack(">i", 3) + data[12:], "no record batch"),
        (lambda data: data[:-1] + b"\x09", "checksum"),
    ],
)
def test_damage_names_the_partition_and_the_offset(change: Any, says: str) -> None:
    data = log_of([([Record(b"k", b"v" * 9, 1)], Codec.NONE, TimestampType.CREATE_TIME, 4)])
    with pytest.raises(CorruptBatch, match=f"events-3.*{says}"):
        rows(Decoder(PLACE).decode(change(data), 0).batches)
