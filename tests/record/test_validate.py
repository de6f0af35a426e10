"""What a leader refuses, with the codes that Apache Kafka 4.3.0 gave to the same bytes."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.errors import ErrorCode
from ottla.record.batch import HEADER_SIZE, BatchHeader, Codec, TimestampType, computed_crc, parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.record.validate import BatchRules, Rejected, Walked, check_produced, walk_records

NOW = 1_700_000_000_000
HOUR = 3_600_000
RECORDS = [Record(b"k%d" % n, b"v", NOW) for n in range(3)]
GOOD = build_batch(RECORDS)
PLAIN = BatchRules()
COMPACTED = BatchRules(compacted=True)


def patched(position: int, value: bytes, batch: bytes = GOOD, *, crc: bool = True) -> bytes:
    """The batch with other bytes at a position and, as a client that means it would, a CRC that fits."""
    changed = bytearray(batch)
    changed[position : position + len(value)] = value
    if crc:
        changed[17:21] = computed_crc(changed).to_bytes(4, "big")
    return bytes(changed)


def with_count(count: int, batch: bytes = GOOD) -> bytes:
    return patched(57, pack(">i", count), patched(23, pack(">i", count - 1), batch))


def refused(batch: bytes, rules: BatchRules = PLAIN, version: int = 13) -> Rejected:
    verdict = check_produced(batch, rules, NOW, version)
    assert isinstance(verdict, Rejected)
    return verdict


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_passes_both_checks(codec: Codec) -> None:
    batch = build_batch(RECORDS, codec=codec)

    assert check_produced(memoryview(batch), PLAIN, NOW) == parse_header(batch)
    assert isinstance(walk_records(memoryview(batch), COMPACTED, NOW), Walked)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        pytest.param(b"", ErrorCode.invalid_record, id="nothing"),
        pytest.param(GOOD[:10], ErrorCode.invalid_record, id="no length"),
        pytest.param(GOOD[:17], ErrorCode.invalid_record, id="no header"),
        pytest.param(GOOD[:-1], ErrorCode.invalid_record, id="cut"),
        pytest.param(GOOD + GOOD, ErrorCode.invalid_record, id="two batches"),
        pytest.param(GOOD + GOOD[:30], ErrorCode.invalid_record, id="bytes after it"),
        pytest.param(patched(8, pack(">i", 13), crc=False), ErrorCode.corrupt_message, id="length 13"),
        pytest.param(patched(8, pack(">i", -1), crc=False), ErrorCode.corrupt_message, id="length -1"),
        pytest.param(patched(8, pack(">i", 48), crc=False)[:60], ErrorCode.corrupt_message, id="shorter than a header"),
        pytest.param(patched(8, pack(">i", len(GOOD) - 11), crc=False), ErrorCode.invalid_record, id="length + 1"),
        pytest.param(patched(8, pack(">i", len(GOOD) - 13), crc=False), ErrorCode.corrupt_message, id="length - 1"),
        pytest.param(patched(16, b"\x00"), ErrorCode.invalid_record, id="magic 0"),
        pytest.param(patched(16, b"\x01"), ErrorCode.invalid_record, id="magic 1"),
        pytest.param(patched(16, b"\x03"), ErrorCode.corrupt_message, id="magic 3"),
        pytest.param(patched(16, b"\xff"), ErrorCode.corrupt_message, id="magic -1"),
        pytest.param(patched(17, b"\x00\x00\x00\x01", crc=False), ErrorCode.corrupt_message, id="CRC"),
        pytest.param(patched(0, pack(">q", 5)), ErrorCode.invalid_record, id="base offset 5"),
        pytest.param(patched(21, pack(">h", 5)), ErrorCode.unknown_server_error, id="codec 5"),
        pytest.param(patched(23, pack(">i", 5)), ErrorCode.invalid_record, id="last offset delta 5"),
        pytest.param(patched(23, pack(">i", -5)), ErrorCode.invalid_record, id="last offset delta -5"),
        pytest.param(patched(57, pack(">i", 0)), ErrorCode.invalid_record, id="count 0"),
        pytest.param(with_count(0), ErrorCode.invalid_record, id="count 0 and delta -1"),
        pytest.param(patched(57, pack(">i", -1)), ErrorCode.invalid_record, id="count -1"),
        pytest.param(with_count(2**31 - 1), ErrorCode.invalid_record, id="more records than bytes"),
        pytest.param(build_batch(RECORDS, control=True), ErrorCode.invalid_record, id="control"),
        pytest.param(
            build_batch(RECORDS, producer_id=5, producer_epoch=0), ErrorCode.invalid_record, id="producer, no sequence"
        ),
        pytest.param(build_batch([Record(b"k", bytes(1_048_588), NOW)]), ErrorCode.message_too_large, id="too large"),
        pytest.param(build_batch([Record(b"k", b"v", NOW + HOUR + 1)]), ErrorCode.invalid_timestamp, id="future"),
        pytest.param(
            build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME), ErrorCode.invalid_timestamp, id="type"
        ),
    ],
)
def test_a_bad_header_is_refused_with_kafkas_code(batch: bytes, code: ErrorCode) -> None:
    assert refused(batch).code == code


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(build_batch([Record(b"k", b"v", NOW + HOUR)]), id="as late as allowed"),
        pytest.param(build_batch([Record(b"k", b"v")]), id="no timestamp"),
        pytest.param(build_batch([Record(b"k", b"v", 5)]), id="very old"),
        pytest.param(build_batch(RECORDS, base_sequence=4), id="sequence without producer"),
        pytest.param(build_batch(RECORDS, producer_id=6, base_sequence=0), id="producer without epoch"),
        pytest.param(patched(21, pack(">h", 0x40)), id="delete horizon"),
        pytest.param(patched(21, pack(">h", 0x180)), id="attributes of the future"),
        pytest.param(patched(12, pack(">i", 77), crc=False), id="any leader epoch"),
    ],
)
def test_what_kafka_takes_is_taken(batch: bytes) -> None:
    assert isinstance(check_produced(batch, PLAIN, NOW), BatchHeader)


def test_zstd_is_refused_from_clients_older_than_it() -> None:
    batch = build_batch(RECORDS, codec=Codec.ZSTD)

    assert refused(batch, version=6).code == ErrorCode.unsupported_compression_type
    assert isinstance(check_produced(batch, PLAIN, NOW, 7), BatchHeader)


def test_with_log_append_time_the_clients_timestamps_do_not_matter() -> None:
    rules = BatchRules(log_append_time=True, before_max_ms=1000, after_max_ms=1000)
    batch = build_batch([Record(b"k", b"v", NOW + 9 * HOUR), Record(b"k", b"v", 0)])

    assert isinstance(check_produced(batch, rules, NOW), BatchHeader)
    assert isinstance(walk_records(batch, rules, NOW), Walked)


def test_the_size_limit_counts_the_whole_batch() -> None:
    assert isinstance(check_produced(GOOD, BatchRules(max_bytes=len(GOOD)), NOW), BatchHeader)
    assert refused(GOOD, BatchRules(max_bytes=len(GOOD) - 1)).code == ErrorCode.message_too_large


@pytest.mark.parametrize(
    ("rules", "needed"),
    [
        (PLAIN, False),
        (COMPACTED, True),
        (BatchRules(before_max_ms=1000), True),
        (BatchRules(before_max_ms=1000, log_append_time=True), False),
        (BatchRules(compacted=True, log_append_time=True), True),
    ],
)
def test_records_are_walked_where_a_config_asks_for_it(rules: BatchRules, needed: bool) -> None:
    assert rules.needs_walk is needed


@pytest.mark.parametrize("codec", Codec)
def test_a_compacted_topic_refuses_null_keys_and_names_the_records(codec: Codec) -> None:
    batch = build_batch([*RECORDS, Record(None, b"v", NOW), Record(b"", b"v", NOW)], codec=codec)

    verdict = walk_records(batch, COMPACTED, NOW)

    assert isinstance(verdict, Rejected)
    assert verdict.code == ErrorCode.invalid_record
    assert [index for index, _ in verdict.records] == [3]
    assert isinstance(walk_records(batch, PLAIN, NOW), Walked)


@pytest.mark.parametrize("timestamp", [NOW - 1001, NOW + HOUR + 1, 0, -2])
def test_a_record_out_of_the_time_bounds_is_named(timestamp: int) -> None:
    # given a header that hides it
    batch = patched(35, pack(">q", NOW), build_batch([*RECORDS, Record(b"k", b"v", timestamp)]))

    verdict = walk_records(batch, BatchRules(before_max_ms=1000), NOW)

    assert isinstance(verdict, Rejected)
    assert verdict.code == ErrorCode.invalid_timestamp
    assert [index for index, _ in verdict.records] == [3]


def test_an_answer_names_at_most_a_hundred_records() -> None:
    verdict = walk_records(build_batch([Record(None, b"", NOW)] * 300), COMPACTED, NOW)

    assert isinstance(verdict, Rejected)
    assert len(verdict.records) == 100
    assert "300 of 300" in verdict.message


def test_a_walk_finds_the_true_largest_timestamp() -> None:
    batch = patched(35, pack(">q", 1), build_batch([*RECORDS, Record(b"k", b"v", NOW + 12345), *RECORDS]))

    verdict = walk_records(batch, PLAIN, NOW)

    assert isinstance(verdict, Walked)
    assert verdict.max_timestamp == NOW + 12345


def bumped(position: int, by: int) -> bytes:
    return patched(position, bytes([GOOD[position] + by]))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("count", [2, 4])
def test_a_count_that_lies_is_found(codec: Codec, count: int) -> None:
    verdict = walk_records(with_count(count, build_batch(RECORDS, codec=codec)), PLAIN, NOW)

    assert isinstance(verdict, Rejected)
    assert verdict.code == ErrorCode.invalid_record


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        pytest.param(bumped(HEADER_SIZE, 2), ErrorCode.invalid_record, id="record a byte too long"),
        pytest.param(bumped(HEADER_SIZE, -2), ErrorCode.invalid_record, id="record a byte too short"),
        pytest.param(bumped(HEADER_SIZE, 1), ErrorCode.invalid_record, id="negative record length"),
        pytest.param(bumped(HEADER_SIZE + 3, 2), ErrorCode.invalid_record, id="offset delta 1 first"),
        pytest.param(bumped(HEADER_SIZE + 4, 40), ErrorCode.invalid_record, id="key beyond the record"),
        pytest.param(patched(HEADER_SIZE + 9, b"\x01"), ErrorCode.invalid_record, id="-1 headers"),
        pytest.param(patched(21, pack(">h", 1)), ErrorCode.unknown_server_error, id="not gzip"),
        pytest.param(patched(21, pack(">h", 2)), ErrorCode.unknown_server_error, id="not snappy"),
        pytest.param(patched(21, pack(">h", 3)), ErrorCode.unknown_server_error, id="not lz4"),
        pytest.param(patched(21, pack(">h", 4)), ErrorCode.unknown_server_error, id="not zstd"),
    ],
)
def test_damaged_records_are_refused_with_kafkas_code(batch: bytes, code: ErrorCode) -> None:
    verdict = walk_records(batch, PLAIN, NOW)

    assert isinstance(verdict, Rejected)
    assert verdict.code == code


def test_a_walk_decompresses_no_more_than_allowed() -> None:
    batch = build_batch([Record(b"k", bytes(1_000_000), NOW)], codec=Codec.LZ4)

    verdict = walk_records(batch, PLAIN, NOW, limit=500_000)

    assert isinstance(verdict, Rejected)
    assert verdict.code == ErrorCode.message_too_large


def test_a_walk_can_be_sent_to_another_process() -> None:
    for thing in (walk_records, COMPACTED, walk_records(GOOD, COMPACTED, NOW), refused(b"")):
        assert pickle.loads(pickle.dumps(thing)) == thing  # noqa: S301


blobs = st.none() | st.binary(max_size=300)
records = st.builds(
    Record,
    key=blobs,
    value=blobs,
    timestamp=st.integers(0, NOW),
    headers=st.lists(st.tuples(st.text(max_size=5), blobs), max_size=3).map(tuple),
)


@given(st.lists(records, min_size=1, max_size=150), st.sampled_from(Codec))
@settings(max_examples=50)
def test_any_batch_that_is_built_right_passes(batch: list[Record], codec: Codec) -> None:
    data = build_batch(batch, codec=codec)

    assert isinstance(check_produced(data, PLAIN, NOW), BatchHeader)
    verdict = walk_records(data, PLAIN, NOW)
    assert isinstance(verdict, Walked)
    assert verdict.max_timestamp == max(record.timestamp for record in batch)


@pytest.mark.parametrize("check", [check_produced, walk_records])
@given(st.data())
@settings(max_examples=300)
def test_no_damage_raises(check: Callable[[bytes, BatchRules, int], object], data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(Codec))
    batch = build_batch(RECORDS * 5, codec=codec)
    # the walk comes after the header's check, so that it meets good headers only
    first = HEADER_SIZE if check is walk_records else 0
    for _ in range(data.draw(st.integers(1, 3))):
        batch = patched(data.draw(st.integers(first, len(batch) - 1)), bytes([data.draw(st.integers(0, 255))]), batch)

    assert isinstance(check(batch, COMPACTED, NOW), BatchHeader | Walked | Rejected)


@given(st.binary(max_size=200))
def test_garbage_is_refused(garbage: bytes) -> None:
    assert isinstance(check_produced(garbage, PLAIN, NOW), Rejected)
