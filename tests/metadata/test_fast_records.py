"""Records written by hand have the bytes that kio writes."""

from __future__ import annotations

from io import BytesIO
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_writer

from ottla.metadata import fast_records
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.metadata.records.partition_record import PartitionRecord

NUMBERS = st.integers(0, 2**31 - 1)
NODES = st.lists(NUMBERS, max_size=130).map(tuple)
UUIDS = st.uuids().filter(lambda uuid: uuid.int > 0)
PARTITIONS = st.builds(
    PartitionRecord,
    partition_id=NUMBERS,
    topic_id=UUIDS,
    replicas=NODES,
    isr=NODES,
    removing_replicas=NODES,
    adding_replicas=NODES,
    leader=st.integers(-1, 5),
    leader_recovery_state=st.sampled_from([0, 0, 0, 1]),
    leader_epoch=NUMBERS,
    partition_epoch=NUMBERS,
    directories=st.lists(UUIDS, max_size=130).map(tuple),
    eligible_leader_replicas=st.none() | NODES,
)
CHANGES = st.builds(
    PartitionChangeRecord,
    partition_id=NUMBERS,
    topic_id=UUIDS,
    leader=st.integers(-2, 5),
    isr=st.none() | NODES,
)


def by_kio(record: Any) -> bytes:
    buffer = BytesIO()
    writer: Any = entity_writer(type(record))
    writer(buffer, record)
    return buffer.getvalue()


@given(PARTITIONS)
def test_partitions(record: PartitionRecord) -> None:
    assert fast_records.partition_record(record) in (None, by_kio(record))


@given(CHANGES)
def test_changes(record: PartitionChangeRecord) -> None:
    assert fast_records.partition_change_record(record) in (None, by_kio(record))


def test_the_usual_ones_are_written_by_hand() -> None:
    topic = UUID(int=5)
    nobody: dict[str, Any] = {"removing_replicas": (), "adding_replicas": ()}
    usual = PartitionRecord(partition_id=1, topic_id=topic, replicas=(1, 2, 3), isr=(1, 2), leader=1, **nobody)
    assert fast_records.partition_record(usual) == by_kio(usual)
    change = PartitionChangeRecord(partition_id=1, topic_id=topic, leader=2)
    assert fast_records.partition_change_record(change) == by_kio(change)
