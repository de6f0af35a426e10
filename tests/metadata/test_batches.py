"""Batches of metadata records: written the short way, they are the same as written one by one."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.batches import batch_records, metadata_batch
from ottla.metadata.record_codec import encode_record, version_to_write
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.partition_record import PartitionRecord
from ottla.metadata.records.topic_record import TopicRecord
from ottla.record.reader import read_records

IDS = st.sampled_from([UUID(int=1), UUID(int=2)])
NODES = st.lists(st.integers(0, 3), max_size=2).map(tuple)
PARTITIONS = st.builds(
    PartitionRecord,
    partition_id=st.integers(0, 2**31 - 1),
    topic_id=IDS,
    replicas=NODES,
    isr=NODES,
    removing_replicas=st.just(()),
    adding_replicas=NODES,
    leader=st.integers(-1, 2),
    leader_recovery_state=st.integers(0, 1),
    leader_epoch=st.integers(0, 2),
    partition_epoch=st.integers(0, 2),
    directories=st.just(()) | st.just((UUID(int=9),)),
)
TOPICS = st.builds(TopicRecord, name=st.sampled_from(["a", "b"]), topic_id=IDS)


@given(st.lists(PARTITIONS | TOPICS, min_size=1, max_size=20), st.sampled_from([17, 23, 30]))
def test_partitions_that_are_alike(records: list[MetadataRecord], metadata_version: int) -> None:
    batch = metadata_batch(records, metadata_version, 0)
    one_by_one = [encode_record(record, version_to_write(record, metadata_version)) for record in records]
    assert [record.value for record in read_records(batch)] == one_by_one
    assert batch_records(batch) == records
