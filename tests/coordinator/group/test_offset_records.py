"""Records of committed offsets: as Apache Kafka 4.3 writes them, and as it has written them in the past."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.offset_records import (
    CommittedOffset,
    OffsetKey,
    read_key,
    read_value,
    tombstone,
    write_key,
    write_value,
)
from ottla.model.errors import OttlaError

TOPIC_ID = UUID("3b36ca78-b2b9-468f-b5c2-29b66bd1ea87")
TIME = 0x01A1E0CAB9D2

# Recorded from Apache Kafka 4.3.0.
KEY = b"\x00\x01\x00\x02g9\x00\x01t\x00\x00\x00\x00"
WRITTEN = {
    "a commit": (
        CommittedOffset(5, -1, "m", TIME, topic_id=TOPIC_ID),
        b"\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05\xff\xff\xff\xff\x02m\x00\x00\x01\xa1\xe0\xca\xb9\xd2\x01\x00\x10"
        + TOPIC_ID.bytes,
    ),
    "one without metadata": (
        CommittedOffset(-5, -1, "", TIME, topic_id=TOPIC_ID),
        b"\x00\x04\xff\xff\xff\xff\xff\xff\xff\xfb\xff\xff\xff\xff\x01\x00\x00\x01\xa1\xe0\xca\xb9\xd2\x01\x00\x10"
        + TOPIC_ID.bytes,
    ),
    "one that sets how long it is kept": (
        CommittedOffset(5, -1, "m", TIME, TIME + 100_000),
        b"\x00\x01\x00\x00\x00\x00\x00\x00\x00\x05\x00\x01m\x00\x00\x01\xa1\xe0\xca\xb9\xd2\x00\x00\x01\xa1\xe0\xcc@r",
    ),
}
# Versions of old, by their schemas.
OLD = {
    "0": (
        CommittedOffset(5, -1, "m", TIME),
        b"\x00\x00" + (5).to_bytes(8) + b"\x00\x01m" + TIME.to_bytes(8),
    ),
    "2": (
        CommittedOffset(5, -1, "", TIME),
        b"\x00\x02" + (5).to_bytes(8) + b"\x00\x00" + TIME.to_bytes(8),
    ),
    "3": (
        CommittedOffset(5, 7, "mm", TIME),
        b"\x00\x03" + (5).to_bytes(8) + b"\x00\x00\x00\x07\x00\x02mm" + TIME.to_bytes(8),
    ),
    "4 without an id, with a tag that is unknown": (
        CommittedOffset(5, 7, "mm", TIME),
        b"\x00\x04" + (5).to_bytes(8) + b"\x00\x00\x00\x07\x03mm" + TIME.to_bytes(8) + b"\x01\x09\x02xy",
    ),
}


@pytest.mark.parametrize(("committed", "value"), WRITTEN.values(), ids=WRITTEN)
def test_values_are_written_as_kafka_writes_them(committed: CommittedOffset, value: bytes) -> None:
    assert write_value(committed) == value
    assert read_value(value) == committed


@pytest.mark.parametrize(("committed", "value"), OLD.values(), ids=OLD)
def test_older_values_are_read(committed: CommittedOffset, value: bytes) -> None:
    assert read_value(value) == committed


def test_keys_are_kafkas() -> None:
    assert write_key(OffsetKey("g9", "t", 0)) == KEY
    assert read_key(KEY) == read_key(b"\x00\x00" + KEY[2:]) == OffsetKey("g9", "t", 0)
    assert tombstone(OffsetKey("g9", "t", 0)) == (KEY, None)


@given(
    key=st.builds(OffsetKey, st.text(max_size=20), st.text(max_size=20), st.integers(0, 2**31 - 1)),
    committed=st.builds(
        CommittedOffset, st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1), st.text(max_size=200),
        st.integers(0, 2**50), st.just(-1), st.none() | st.uuids(),
    ),
)  # fmt: skip
def test_what_is_written_is_read(key: OffsetKey, committed: CommittedOffset) -> None:
    assert read_key(write_key(key)) == key
    assert read_value(write_value(committed)) == committed


@pytest.mark.parametrize(
    "value", [b"", b"\x00", b"\x00\x05" + bytes(40), b"\xff\xff" + bytes(40), WRITTEN["a commit"][1][:-20]]
)
def test_damage_is_named(value: bytes) -> None:
    with pytest.raises(OttlaError, match="a committed offset"):
        read_value(value)


@pytest.mark.parametrize("key", [b"\x00\x01", KEY[:-1], b"\x00\x01\x00\x02\xff\xff\x00\x01t\x00\x00\x00\x00"])
def test_damaged_keys_too(key: bytes) -> None:
    with pytest.raises(OttlaError, match="unreadable key"):
        read_key(key)
