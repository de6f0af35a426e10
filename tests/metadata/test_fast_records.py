"""Records that are written by hand are what kio writes, byte for byte."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ottla.metadata import record_codec
from ottla.metadata.record_codec import decode_record, encode_record
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.metadata.records.partition_record import PartitionRecord

TOPIC = UUID(int=7 << 100 | 9)


def partition(**values: Any) -> PartitionRecord:
    given: dict[str, Any] = {
        "partition_id": 3, "topic_id": TOPIC, "replicas": (1, 2), "isr": (1,), "removing_replicas": (),
        "adding_replicas": (), "leader": 1, "leader_epoch": 4, "partition_epoch": 5, "directories": (TOPIC, None),
    }  # fmt: skip
    return PartitionRecord(**given | values)


@pytest.mark.parametrize(
    ("record", "is_by_hand"),
    [
        (partition(), True),
        (partition(replicas=(), isr=(), directories=()), True),
        (partition(leader=-1, removing_replicas=(5,), adding_replicas=(6, 7)), True),
        (partition(replicas=tuple(range(200)), directories=(TOPIC,) * 200), False),
        (partition(leader_recovery_state=1), False),
        (partition(eligible_leader_replicas=(2,)), False),
        (partition(last_known_elr=()), False),
        (PartitionChangeRecord(partition_id=2**31 - 1, topic_id=TOPIC, leader=-1), True),
        (PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=7), True),
        (PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=7, isr=(7,)), False),
        (PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(7,)), False),
        (PartitionChangeRecord(partition_id=0, topic_id=TOPIC, directories=(TOPIC,)), False),
    ],
)
def test_the_same_bytes(record: MetadataRecord, is_by_hand: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = record_codec._BY_HAND[record.__api_key__, 2](record)
    written = encode_record(record, 2)
    monkeypatch.setattr(record_codec, "_BY_HAND", {})

    assert (by_hand is not None) is is_by_hand
    assert written == encode_record(record, 2)
    assert decode_record(written).record == record
