"""Metadata records and their bytes."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata import record_codec
from ottla.metadata.record_codec import RecordError, decode_record, encode_record, version_to_write
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.metadata.records.index import MODULES
from ottla.metadata.records.no_op_record import NoOpRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.metadata.records.partition_record import PartitionRecord
from ottla.metadata.records.topic_record import TopicRecord
from ottla.record.builder import build_batch
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import Record

GOLDEN = Path(__file__).parent.parent / "golden" / "kafka-4.3.0-cluster-metadata.log"

_INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def all_versions() -> Iterator[tuple[int, int]]:
    for key in MODULES:
        for version in range(record_codec._newest_type(key).__version__ + 1):
            yield key, version


def values(hint: Any, kafka_type: str | None) -> st.SearchStrategy[Any]:
    """Values for a field, from its annotation."""
    parts = get_args(hint)
    if type(None) in parts:
        (inner,) = (part for part in parts if part is not type(None))
        return st.none() | values(inner, kafka_type)
    if parts and parts[-1] is Ellipsis:
        inner = next((part for part in get_args(parts[0]) if part is not type(None)), parts[0])
        return st.lists(values(inner, kafka_type), max_size=3).map(tuple)
    if kafka_type in _INTEGERS:
        bits = _INTEGERS[kafka_type]
        return st.integers(-(2**bits), 2**bits - 1)
    plain: dict[str, st.SearchStrategy[Any]] = {
        "uint16": st.integers(0, 65535),
        "float64": st.floats(allow_nan=False),
        "string": st.text(st.characters(codec="utf-8"), max_size=20),
        "bytes": st.binary(max_size=20),
        "bool": st.booleans(),
        "uuid": st.integers(1, 2**128 - 1).map(lambda number: UUID(int=number)),
    }
    return records(hint) if kafka_type is None else plain[kafka_type]


def records(of_type: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(of_type)
    return st.builds(of_type, **{f.name: values(hints[f.name], f.metadata.get("kafka_type")) for f in fields(of_type)})


@pytest.mark.parametrize(("key", "version"), list(all_versions()))
def test_every_type_survives_in_every_version(key: int, version: int) -> None:
    wire_type = record_codec._wire_format(key, version).type
    newest = record_codec._newest_type(key)

    @given(records(wire_type))
    def check(written: MetadataRecord) -> None:
        record = newest(**{f.name: getattr(written, f.name) for f in fields(written)})
        decoded = decode_record(encode_record(record, version))
        assert decoded == (record, version)

    check()


def test_records_written_by_kafka_are_written_again_byte_for_byte() -> None:
    types = set()
    for header, batch in iterate_batches(GOLDEN.read_bytes()):
        if header.is_control:
            continue
        again = []
        for record in read_records(batch):
            decoded, version = decode_record(record.value)
            types.add(type(decoded).__name__)
            again.append(Record(None, encode_record(decoded, version), record.timestamp))
            assert version == version_to_write(decoded, metadata_version=30)
        assert build_batch(again, base_offset=header.base_offset, leader_epoch=header.leader_epoch) == batch
    assert len(types) == 15  # that the file has much to say


@pytest.mark.parametrize(
    ("metadata_version", "version"), [(7, 0), (16, 0), (17, 1), (22, 1), (23, 2), (30, 2), (31, 2)]
)
def test_partition_records_are_written_in_the_version_of_the_cluster(metadata_version: int, version: int) -> None:
    record = PartitionChangeRecord(partition_id=0, topic_id=UUID(int=5), leader=1)

    assert version_to_write(record, metadata_version) == version


def test_other_records_are_written_in_the_oldest_version_that_will_do() -> None:
    def change(**values: Any) -> int:
        return version_to_write(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, **values), 30)

    assert change(fenced=-1) == 0
    assert change(in_controlled_shutdown=1) == 1
    assert change(fenced=1, log_dirs=(UUID(int=9),)) == 2
    assert change(cordoned_log_dirs=()) == 3


def test_a_version_that_would_lose_something_is_refused() -> None:
    record = PartitionRecord(
        topic_id=UUID(int=5), replicas=(1,), isr=(1,), removing_replicas=(), adding_replicas=(),
        directories=(UUID(int=7),),
    )  # fmt: skip

    with pytest.raises(RecordError, match="no place for directories"):
        encode_record(record, 0)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"", "no value"),
        (b"\x02\x14\x00\x00", "frame version 2"),
        (b"\x01\x06\x00\x00", "type 6 is not known"),
        (b"\x01\x14\x07\x00", "NoOpRecord version 7"),
        (b"\x01\x02\x00\x06al", "cannot be read"),
        (b"\x01", "cannot be read"),
        (b"\x80\x80\x80\x80\x80\x01", "more than five bytes"),
    ],
)
def test_what_is_not_a_record_is_refused(value: bytes | None, reason: str) -> None:
    with pytest.raises(RecordError, match=reason):
        decode_record(value)


def test_bytes_after_a_record_are_refused() -> None:
    value = encode_record(NoOpRecord(), 0)

    assert decode_record(value).record == NoOpRecord()
    with pytest.raises(RecordError, match="1 bytes follow"):
        decode_record(value + b"\x00")


def test_a_topic_record_has_these_bytes() -> None:
    record = TopicRecord(name="ab", topic_id=UUID(int=1))

    assert encode_record(record, 0) == b"\x01\x02\x00" + b"\x03ab" + bytes(15) + b"\x01" + b"\x00"
