"""What is built is read again, by us and by two other implementations; what is damaged is refused."""

from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AioBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from ottla.record.batch import HEADER_SIZE, Codec, TimestampType, computed_crc, parse_header
from ottla.record.builder import build_batch, build_plain_batch
from ottla.record.reader import iterate_batches, read_entries, read_records
from ottla.record.records import BatchTooLarge, CorruptBatch, Record

NOW = 1_700_000_000_000
SAMPLE = [
    Record(b"key", b"value", NOW, (("trace", b"1"), ("empty", None)), 5),
    Record(None, b"", NOW + 70_000, (), 6),
    Record(b"", None, NOW - 3, (("größe", b""),), 7),
]
KAFKA_PYTHON_CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]  # its snappy needs a library of its own

blobs = st.none() | st.binary(max_size=300)
records = st.builds(
    Record,
    key=blobs,
    value=blobs,
    timestamp=st.integers(-1, 2**48),
    headers=st.lists(st.tuples(st.text(max_size=10), blobs), max_size=3).map(tuple),
)


def numbered(batch: list[Record], base_offset: int) -> list[Record]:
    return [record._replace(offset=base_offset + delta) for delta, record in enumerate(batch)]


@given(st.lists(records, min_size=1, max_size=20), st.sampled_from(Codec), st.integers(0, 2**60))
def test_entries_are_the_records_without_their_times_and_headers(
    batch: list[Record], codec: Codec, base_offset: int
) -> None:
    ((header, data),) = iterate_batches(build_batch(batch, base_offset=base_offset, codec=codec))
    expected = [(record.offset, record.key, record.value) for record in numbered(batch, base_offset)]
    assert [tuple(entry) for entry in read_entries(header, data)] == expected


@given(st.lists(records, min_size=1, max_size=4), st.data())
def test_entries_of_a_damaged_batch_are_refused_or_given(batch: list[Record], data: st.DataObject) -> None:
    """One kind of error, whatever byte is wrong; what cannot be seen without the CRC may pass."""
    damaged = bytearray(build_batch(batch))
    damaged[data.draw(st.integers(HEADER_SIZE, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    ((header, view),) = iterate_batches(damaged)
    try:
        entries = read_entries(header, view)
    except CorruptBatch:
        return
    assert len(entries) == len(batch)


@given(st.lists(st.tuples(st.binary(max_size=300), blobs), min_size=1, max_size=200), st.integers(0, 2**48))
def test_a_plain_batch_is_as_any_other(pairs: list[tuple[bytes, bytes | None]], now: int) -> None:
    assert build_plain_batch(pairs, now) == build_batch([Record(key, value, now) for key, value in pairs])


@given(st.lists(records, min_size=1, max_size=20), st.sampled_from(Codec), st.integers(0, 2**60))
def test_records_come_back_as_they_went_in(batch: list[Record], codec: Codec, base_offset: int) -> None:
    data = build_batch(batch, base_offset=base_offset, codec=codec)

    assert read_records(data) == numbered(batch, base_offset)
    header = parse_header(data)
    assert header.crc == computed_crc(data)
    assert header.size == len(data)
    assert header.record_count == len(batch)
    assert header.max_timestamp == max(record.timestamp for record in batch)


@pytest.mark.parametrize("codec", Codec)
def test_aiokafka_reads_what_we_build(codec: Codec) -> None:
    theirs = AioBatch(build_batch(SAMPLE, base_offset=5, codec=codec))

    assert theirs.validate_crc()
    assert [Record(r.key, r.value, r.timestamp, tuple(r.headers), r.offset) for r in theirs] == SAMPLE


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
def test_kafka_python_reads_what_we_build(codec: Codec) -> None:
    theirs = KafkaPythonBatch(build_batch(SAMPLE, base_offset=5, codec=codec))

    assert theirs.validate_crc()
    assert [Record(r.key, r.value, r.timestamp, tuple(r.headers), r.offset) for r in theirs] == SAMPLE


@pytest.mark.parametrize(
    ("builder", "codec"),
    [(AioBuilder, codec) for codec in Codec] + [(KafkaPythonBuilder, codec) for codec in KAFKA_PYTHON_CODECS],
)
def test_we_read_what_other_clients_build(builder: type, codec: Codec) -> None:
    # given three records, whose values are long enough that the builders do compress
    batch = [record._replace(value=(record.value or b"") + b"x" * 2000) for record in SAMPLE]
    theirs = builder(2, codec.value, False, 7, 3, 11, 1 << 20)
    for delta, record in enumerate(batch):
        theirs.append(delta, record.timestamp, record.key, record.value, list(record.headers))

    data = bytes(theirs.build())

    assert read_records(data) == numbered(batch, 0)
    header = parse_header(data)
    assert (header.codec, header.producer_id, header.producer_epoch, header.base_sequence) == (codec, 7, 3, 11)
    assert header.crc == computed_crc(data)


def test_an_uncompressed_batch_is_byte_for_byte_what_aiokafka_builds() -> None:
    theirs = AioBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for delta, record in enumerate(SAMPLE):
        theirs.append(delta, record.timestamp, record.key, record.value, list(record.headers))

    assert build_batch(SAMPLE) == bytes(theirs.build())


def test_flags_and_epoch_are_in_the_header() -> None:
    data = build_batch(SAMPLE, leader_epoch=9, transactional=True, control=True, producer_id=4, producer_epoch=1)

    header = parse_header(data)

    assert header.leader_epoch == 9
    assert header.is_transactional and header.is_control


def test_with_log_append_time_every_record_has_the_batch_time() -> None:
    data = build_batch(SAMPLE, timestamp_type=TimestampType.LOG_APPEND_TIME)

    assert {record.timestamp for record in read_records(data)} == {NOW + 70_000}


def test_a_batch_without_records_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_walking_over_batches_ends_at_a_partial_one() -> None:
    first, second = build_batch(SAMPLE), build_batch(SAMPLE, base_offset=3)

    for cut in range(1, len(second)):
        walked = list(iterate_batches(first + second[:cut]))
        assert [header.base_offset for header, _ in walked] == [0]
        assert bytes(walked[0][1]) == first


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [(16, b"\x01", "magic 1"), (8, b"\x00\x00\x00\x10", "less than a header"), (8, b"\xff\xff\xff\xff", "less than")],
)
def test_a_header_that_cannot_be_one_is_told(position: int, value: bytes, message: str) -> None:
    data = bytearray(build_batch(SAMPLE))
    data[position : position + len(value)] = value

    with pytest.raises(CorruptBatch, match=message):
        list(iterate_batches(data))
    with pytest.raises(CorruptBatch):
        read_records(data)


@pytest.mark.parametrize("codec", Codec)
@given(st.data())
@settings(max_examples=60)
def test_damaged_records_are_refused_and_nothing_else_is_raised(codec: Codec, data: st.DataObject) -> None:
    batch = bytearray(build_batch(SAMPLE * 3, codec=codec))
    position = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(HEADER_SIZE, len(batch)))

    for damaged in (batch, batch[:cut]):
        try:
            found = read_records(damaged, limit=100_000)
        except CorruptBatch:
            continue
        assert len(found) == 9


def test_a_claim_of_many_headers_is_refused_at_once() -> None:
    data = bytearray(build_batch([Record(b"k", b"v", NOW)]))
    data[-1:] = b"\xfe\xff\xff\xff\x0f"  # 2**31 - 1 headers, with none of their bytes there
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[HEADER_SIZE] += 8

    with pytest.raises(CorruptBatch, match="headers"):
        read_records(data)


def test_reading_stops_at_the_callers_limit() -> None:
    data = build_batch([Record(None, bytes(1_000_000), NOW)], codec=Codec.ZSTD)

    with pytest.raises(BatchTooLarge, match="1000 bytes allowed"):
        read_records(data, limit=1000)
