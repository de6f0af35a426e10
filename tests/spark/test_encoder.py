"""Arrow into record batches: the plain reader finds the same records, in the partitions of the Java clients."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.record.batch import Codec, computed_crc, parse_header
from ottla.record.reader import read_records
from ottla.spark.decoder import Decoder
from ottla.spark.encoder import BATCH_BYTES, Encoder, sealed
from ottla.spark.encoder_kernels import murmur2

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
    ]
)
COUNTS = {"a": 3, "b": 5}

some_bytes = st.none() | st.binary(max_size=20) | st.binary(min_size=100, max_size=300)
some_headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=9)}), max_size=3
)


def in_topic(topic: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {
            "key": some_bytes,
            "value": some_bytes,
            "headers": some_headers,
            "topic": st.just(topic),
            "partition": st.none() | st.integers(0, COUNTS[topic] - 1),
        }
    )


some_rows = st.lists(in_topic("a") | in_topic("b"), max_size=60)


def java_murmur2(data: bytes) -> int:
    """As in org.apache.kafka.common.utils.Utils, slowly."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = (0x9747B28C ^ len(data)) & mask
    for at in range(0, len(data) - 3, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    tail = data[len(data) & ~3 :]
    for n in reversed(range(len(tail))):
        h ^= tail[n] << 8 * n
    if tail:
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    return (h ^ h >> 15) & 0x7FFFFFFF


@pytest.mark.parametrize(
    ("key", "known"),
    [  # what Kafka's own test of the hash expects
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_the_java_clients(key: bytes, known: int) -> None:
    import numpy as np

    data = np.frombuffer(b"xx" + key, dtype=np.uint8)
    assert murmur2(data, 2, len(key)) == known & 0x7FFFFFFF == java_murmur2(key)


def wanted(rows: list[dict[str, Any]], without_key: int) -> dict[TopicPartition, list[Any]]:
    found: dict[TopicPartition, list[Any]] = defaultdict(list)
    for row in rows:
        partition = row["partition"]
        if partition is None:
            count = COUNTS[row["topic"]]
            partition = without_key % count if row["key"] is None else java_murmur2(row["key"]) % count
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        found[TopicPartition(row["topic"], partition)].append((row["key"], row["value"], headers))
    return dict(found)


@given(some_rows, st.integers(0, 20), st.integers(0, 50), st.sampled_from(Codec), st.integers(0, 9))
def test_records_are_in_their_partitions_and_in_order(
    rows: list[dict[str, Any]], before: int, limit: int, codec: Codec, without_key: int
) -> None:
    whole = pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
    part, own = whole.slice(before), rows[before:]
    encoder = Encoder(None, codec=codec, transactional=True, batch_bytes=100 * (limit + 1))
    made = list(encoder.encode(part, COUNTS, 1234, without_key))
    found: dict[TopicPartition, list[Any]] = defaultdict(list)
    for place, count, batch in made:
        sequence = len(found[place])
        batch = b"".join(sealed(batch, 77, 5, sequence))
        header = parse_header(batch)
        assert header.crc == computed_crc(batch)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 5, sequence)
        assert (header.record_count, header.codec, header.is_transactional) == (count, codec, True)
        found[place] += [(record.key, record.value, record.headers) for record in read_records(batch)]
        assert {record.timestamp for record in read_records(batch)} == {1234}
    assert found == wanted(own, without_key)


def test_what_is_encoded_can_be_decoded() -> None:
    rows = pa.RecordBatch.from_pylist([{"key": b"k%d" % n, "value": b"v" * n} for n in range(500)], schema=SCHEMA)
    (made,) = Encoder("a").encode(rows, {"a": 1}, 5)
    (found,) = Decoder(made.place).decode(b"".join(sealed(made.data, -1, -1, -1)), 0).batches
    assert found.select(["key", "value"]).equals(rows.select(["key", "value"]))


def test_text_is_written_as_utf_8_and_columns_may_be_missing() -> None:
    rows = pa.record_batch({"value": pa.array(["grüße", None])})
    (made,) = Encoder("a").encode(rows, {"a": 1}, 5)
    assert [record.value for record in read_records(made.data)] == ["grüße".encode(), None]


def test_a_record_larger_than_a_batch_is_a_batch_of_its_own() -> None:
    large = b"x" * (BATCH_BYTES + 5)
    header = [{"key": "h", "value": b"y" * BATCH_BYTES}]
    rows = pa.RecordBatch.from_pylist(
        [{"value": b"s"}, {"value": large}, {"value": b"t"}, {"value": b"u", "headers": header}], schema=SCHEMA
    )
    made = list(Encoder("a").encode(rows, {"a": 1}, 5))
    found = [[record.value for record in read_records(batch)] for _, _, batch in made]
    assert [value for batch in found for value in batch] == [b"s", large, b"t", b"u"]
    assert [large] in found


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"value": b"v", "topic": "a", "partition": 3}, "partition 3 of topic a, which has 3"),
        ({"value": b"v", "topic": "a", "partition": -1}, "partition -1 of topic a"),
        ({"value": b"v", "topic": "a", "headers": [{"key": None, "value": b""}]}, "header has no key"),
    ],
)
def test_rows_that_cannot_be_written(row: dict[str, Any], says: str) -> None:
    rows = pa.RecordBatch.from_pylist([row], schema=SCHEMA)
    with pytest.raises(OttlaError, match=says):
        list(Encoder(None).encode(rows, COUNTS, 5))


def test_a_row_without_a_topic() -> None:
    rows = pa.RecordBatch.from_pylist([{"value": b"v"}], schema=SCHEMA)
    with pytest.raises(OttlaError, match="a row has no topic"):
        Encoder(None).topics(rows)
