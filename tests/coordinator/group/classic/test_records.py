"""GroupMetadata records: the bytes of Kafka, in all versions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.group.classic.records import (
    StoredGroup,
    StoredMember,
    UnreadableGroup,
    group_key,
    group_of,
    group_record,
    read_group,
    tombstone,
)

MEMBER = StoredMember("m-1", "i-1", "c", "/127.0.0.1", 60_000, 10_000, b"sub", b"ass")
GROUP = StoredGroup("consumer", 7, "range", "m-1", 1234, [MEMBER])


def short(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else struct.pack(">h", len(text)) + text.encode()


def compact(data: bytes) -> bytes:
    return bytes([len(data) + 1]) + data


def written(version: int) -> bytes:
    """As Kafka's schema says, field by field."""
    if version == 4:
        member = b"".join(map(compact, (b"m-1", b"i-1", b"c", b"/127.0.0.1"))) + struct.pack(">ii", 60_000, 10_000)
        member += compact(b"sub") + compact(b"ass") + b"\x01\x07\x02xy"  # a tagged field that is not known
        head = compact(b"consumer") + struct.pack(">i", 7) + compact(b"range") + compact(b"m-1")
        return b"\x00\x04" + head + struct.pack(">q", 1234) + b"\x02" + member + b"\x00"
    data = struct.pack(">h", version) + short("consumer") + struct.pack(">i", 7) + short("range") + short("m-1")
    if version >= 2:
        data += struct.pack(">q", 1234)
    data += struct.pack(">i", 1) + short("m-1")
    if version >= 3:
        data += short("i-1")
    data += short("c") + short("/127.0.0.1")
    if version >= 1:
        data += struct.pack(">i", 60_000)
    return data + struct.pack(">i", 10_000) + struct.pack(">i", 3) + b"sub" + struct.pack(">i", 3) + b"ass"


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_read(version: int) -> None:
    member = MEMBER
    if version < 3:
        member = member._replace(instance_id=None)
    if version < 1:
        member = member._replace(rebalance_timeout_ms=-1)
    assert read_group(written(version)) == GROUP._replace(members=[member], state_since_ms=1234 if version >= 2 else -1)


def test_version_3_is_written() -> None:
    record = group_record("größe", GROUP)
    assert record.key == b"\x00\x02" + struct.pack(">h", 7) + "größe".encode()
    assert record.value == written(3)
    assert group_of(record.key) == "größe"
    assert tombstone("größe") == (group_key("größe"), None)


@pytest.mark.parametrize("version", range(5))
def test_what_is_cut_off_is_not_read(version: int) -> None:
    data = written(version)
    for size in range(len(data) - (version != 4)):
        with pytest.raises(UnreadableGroup):
            read_group(data[:size])


def test_versions_of_the_future_are_not_guessed() -> None:
    with pytest.raises(UnreadableGroup, match="version 5"):
        read_group(b"\x00\x05" + written(3)[2:])


texts = st.text(max_size=20)
numbers = st.integers(-(2**31), 2**31 - 1)
members = st.builds(
    StoredMember, texts, st.none() | texts, texts, texts, numbers, numbers, st.binary(max_size=9), st.binary(max_size=9)
)
groups = st.builds(
    StoredGroup, texts, numbers, st.none() | texts, st.none() | texts, st.integers(-1, 2**40), st.lists(members)
)


@given(groups)
def test_what_is_written_is_read(group: StoredGroup) -> None:
    value = group_record("g", group).value
    assert value is not None
    assert read_group(value) == group
