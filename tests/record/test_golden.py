"""Batches that Apache Kafka 4.3.0's console producer wrote, taken from its segments."""

from __future__ import annotations

import pytest

from ottla.record.batch import BatchHeader, Codec, computed_crc, parse_header
from ottla.record.builder import build_batch
from ottla.record.reader import read_records
from ottla.record.records import Record
from ottla.record.validate import BatchRules, Walked, check_produced, walk_records

VALUE = b"value1-" + b"a" * 200
HEADERS = (("h1", b"v1"), ("h2", b""))

JAVA_BATCHES = {
    Codec.NONE: (
        "0000000000000000000001170000000002ace13b65000000000000000001a1dfd105b8000001a1dfd105b800000000000000000000000000"
        "0000000001c803000000086b6579319e03" + VALUE.hex() + "0404683104763104683200"
    ),
    Codec.GZIP: (
        "0000000000000000000000660000000002d97633fb000100000000000001a1dfd10919000001a1dfd1091900000000000000010000000000"
        "00000000011f8b08000000000000ff3bc1ccc0c0c0919d5a69388fb92c31a734d5503771980016960c43963243960c230600ed7b6948e600"
        "0000"
    ),
    Codec.SNAPPY: (
        "0000000000000000000000730000000002a5080aa3000200000000000001a1dfd10c44000001a1dfd10c4400000000000000020000000000"
        "000000000182534e415050590000000001000000010000002ee6014cc803000000086b6579319e0376616c7565312d61fe0100fe0100fe01"
        "000d01280404683104763104683200"
    ),
    Codec.LZ4: (
        "0000000000000000000000650000000002b0f89920000300000000000001a1dfd10f6b000001a1dfd10f6b00000000000000030000000000"
        "000000000104224d1860408225000000ff05c803000000086b6579319e0376616c7565312d610100b4b00404683104763104683200000000"
        "00"
    ),
    Codec.ZSTD: (
        "000000000000000000000063000000000221117c0b000400000000000001a1dfd11300000001a1dfd1130000000000000000040000000000"
        "000000000128b52ffd0058340100f8c803000000086b6579319e0376616c7565312d610404683104763104683200010088146002010000"
    ),
}


@pytest.mark.parametrize("codec", Codec)
def test_what_java_wrote_is_read(codec: Codec) -> None:
    batch = bytes.fromhex(JAVA_BATCHES[codec])

    header = parse_header(batch)
    (record,) = read_records(batch)

    assert (header.codec, header.size, header.crc) == (codec, len(batch), computed_crc(batch))
    assert record == Record(b"key1", VALUE, header.max_timestamp, HEADERS, 0)


@pytest.mark.parametrize("codec", Codec)
def test_what_java_wrote_passes_every_check(codec: Codec) -> None:
    batch = bytes.fromhex(JAVA_BATCHES[codec])
    sent_at = parse_header(batch).max_timestamp
    rules = BatchRules(compacted=True, before_max_ms=0, after_max_ms=0)

    assert isinstance(check_produced(batch, rules, sent_at), BatchHeader)
    assert walk_records(batch, rules, sent_at) == Walked(sent_at, 230)


def test_we_build_the_same_bytes_as_java() -> None:
    batch = bytes.fromhex(JAVA_BATCHES[Codec.NONE])
    header = parse_header(batch)
    record = Record(b"key1", VALUE, header.max_timestamp, HEADERS)

    ours = build_batch([record], leader_epoch=0, producer_id=0, producer_epoch=0, base_sequence=0)

    assert ours == batch
