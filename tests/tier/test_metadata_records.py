from __future__ import annotations

from uuid import UUID

import pytest
from tests.tier.given import OF, segment, update

from ottla.tier.metadata_records import Event, UnknownRecord, metadata_partition, read_event, write_event
from ottla.tier.remote_segment import DeleteState, PartitionDelete, SegmentState

EVENTS: list[Event] = [
    segment(7, 100, 199, (4, 100), (6, 150)),
    segment(8, 0, 0, (0, 0), state=SegmentState.COPY_FINISHED, custom=b"\x01\x02\x03\x04"),
    segment(9, 0, 0)._replace(has_no_aborted=True),
    update(segment(7, 100, 199), SegmentState.DELETE_STARTED),
    update(segment(7, 100, 199), SegmentState.COPY_FINISHED, b""),
    PartitionDelete(OF, 2, 70, DeleteState.MARKED),
]


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_is_read_as_it_was_written(event: Event) -> None:
    assert read_event(write_event(event)) == event


WHOSE = "076f72646572736e9b1d3a7b0f4c6e9a510f3d2c4b5a690000000300"
SEGMENT_7 = WHOSE + "0000000000000000000000000000000700"


@pytest.mark.parametrize(
    ("event", "written"),
    [
        (
            segment(7, 100, 199, (4, 100), (6, 150)),
            "010000" + SEGMENT_7 + "000000000000006400000000000000c70000000100000000000003e80000000000000032"
            "03000000040000000000000064000000000600000000000000960000000064000000",
        ),
        (
            segment(7, 100, 199, (4, 100), (6, 150))._replace(has_no_aborted=True),
            "010000" + SEGMENT_7 + "000000000000006400000000000000c70000000100000000000003e80000000000000032"
            "03000000040000000000000064000000000600000000000000960000000064000001000101",
        ),
        (
            update(segment(7, 100, 199), SegmentState.COPY_FINISHED, b"\xaa"),
            "010100" + SEGMENT_7 + "00000001000000000000003c02aa0100",
        ),
        (
            update(segment(7, 100, 199), SegmentState.DELETE_STARTED),
            "010100" + SEGMENT_7 + "00000001000000000000003c000200",
        ),
        (PartitionDelete(OF, 2, 70, DeleteState.MARKED), "010200" + WHOSE + "0000000200000000000000460000"),
    ],
)
def test_the_bytes_are_those_of_apache_kafka(event: Event, written: str) -> None:
    """As RemoteLogMetadataSerde of 4.3.0 wrote them."""
    assert write_event(event).hex() == written


@pytest.mark.parametrize("event", EVENTS)
def test_what_is_cut_short_is_told(event: Event) -> None:
    written = write_event(event)
    for size in range(len(written) - 1):  # at the end stands the number of tagged fields
        with pytest.raises(UnknownRecord):
            read_event(written[:size])


@pytest.mark.parametrize("value", [b"", b"\x00\x00\x00", b"\x01\x09\x00", b"\x01\x00\x07", b"\x01\x00\x00\xff\xff"])
def test_what_is_not_known_is_told(value: bytes) -> None:
    with pytest.raises(UnknownRecord):
        read_event(value)


@pytest.mark.parametrize(
    ("topic_id", "partition", "expected"),
    [
        (UUID(int=0), 0, 6),
        (UUID(int=0), 1, 30),
        (UUID(int=(1 << 64) | 2), 3, 15),
        (UUID("6e9b1d3a-7b0f-4c6e-9a51-0f3d2c4b5a69"), 7, 14),
    ],
)
def test_a_partition_has_its_place_in_the_topic(topic_id: UUID, partition: int, expected: int) -> None:
    """As RemoteLogMetadataTopicPartitioner of 4.3.0 says, for 50 partitions."""
    assert metadata_partition(topic_id, partition, 50) == expected
