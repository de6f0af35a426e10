"""Brokers of a real Apache Kafka cluster come and go; its metadata log is read, and each of its decisions made anew.

What is compared: which partition changes go with a broker that is fenced, unfenced, in controlled shutdown, or
registers anew, cleanly or not, with eligible leader replicas.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.metadata import given

from ottla.metadata.batches import batch_records
from ottla.metadata.controller.requests import (
    BeginControlledShutdown,
    FenceBroker,
    RegisterBroker,
    Request,
    UnfenceBroker,
)
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, Endpoint, MetadataImage, VersionRange
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.metadata.records.register_broker_record import RegisterBrokerRecord
from ottla.metadata.transactions import Transactions
from ottla.record.reader import iterate_batches
from ottla.testing import apache_kafka
from ottla.testing.apache_kafka_cluster import ApacheKafkaCluster, running_cluster

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]


@dataclass(frozen=True, slots=True)
class Step:
    """A record, the image before it, and how many changes of partitions stand right before it."""

    record: MetadataRecord
    before: MetadataImage
    changes_before: int


def steps(log: Path) -> list[Step]:
    image, transactions, found, changes = EMPTY_IMAGE, Transactions(), list[Step](), 0
    for header, batch in iterate_batches(log.read_bytes()):
        if header.is_control:
            image = replace(image, offset=header.last_offset)
            continue
        for offset, record in enumerate(batch_records(batch), start=header.base_offset):
            for effective in transactions.effective((record,)):
                found.append(Step(effective, image, changes))
                delta = MetadataDelta(image)
                delta.replay(effective)
                image = delta.apply(offset, header.leader_epoch)
                changes = changes + 1 if isinstance(effective, PartitionChangeRecord) else 0
    return found


def story(kafka: ApacheKafkaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    topics = [
        NewTopic("plain", 6, 3),
        NewTopic("strict", 6, 3, config={"min.insync.replicas": "3"}),
        NewTopic("single", 6, 1),
        NewTopic("unclean", 6, 2, config={"unclean.leader.election.enable": "true", "min.insync.replicas": "2"}),
    ]
    for future in admin.create_topics(topics).values():
        future.result(30)
    for victim in (3, 2):
        kafka.nodes[victim].kill()
        time.sleep(6)  # its session is over
        kafka.start_again(victim)
        time.sleep(5)
    kafka.nodes[1].stop()
    time.sleep(2)
    kafka.start_again(1)
    time.sleep(5)


def ours(request: Request[Any], image: MetadataImage) -> list[MetadataRecord]:
    return list(given.accepted(given.handle(request, image, given.settings())).records)


def same(one: Iterable[MetadataRecord], other: Iterable[MetadataRecord]) -> bool:
    """In whichever order: Kafka's is that of a hash table."""
    return Counter(map(repr, map(_sorted, one))) == Counter(map(repr, map(_sorted, other)))


def _sorted(record: MetadataRecord) -> MetadataRecord:
    if not isinstance(record, PartitionChangeRecord):
        return record
    eligible = record.eligible_leader_replicas
    return replace(
        record,
        leader_recovery_state=int(record.leader_recovery_state),
        eligible_leader_replicas=None if eligible is None else tuple(sorted(eligible)),
    )


def registration(record: RegisterBrokerRecord, *, previous_epoch: int) -> RegisterBroker:
    return RegisterBroker(
        record.broker_id,
        given.CLUSTER_ID,
        record.incarnation_id,
        tuple(Endpoint(end.name, end.host, end.port, end.security_protocol) for end in record.end_points),
        tuple(
            (row.name, VersionRange(row.min_supported_version, row.max_supported_version)) for row in record.features
        ),
        tuple(directory for directory in record.log_dirs if directory is not None),
        record.rack,
        previous_epoch,
    )


def test_what_kafka_decided_is_decided_here(tmp_path: Path) -> None:
    with running_cluster(
        tmp_path, 3, broker_session_timeout_ms=3000, broker_heartbeat_interval_ms=500, min_insync_replicas=2
    ) as kafka:
        story(kafka)
        log = next((kafka.nodes[1].directory).rglob("__cluster_metadata-0/00000000000000000000.log"))
        found = steps(log)

    compared: Counter[str] = Counter()
    for position, step in enumerate(found):
        outcome = _compared(found, position, step)
        if outcome is not None:
            compared[outcome] += 1
    assert {"fenced", "unfenced", "in controlled shutdown", "crashed", "back after a clean stop"} <= set(compared), (
        compared
    )


def _compared(found: list[Step], position: int, step: Step) -> str | None:
    record = step.record
    if isinstance(record, RegisterBrokerRecord):
        existing = step.before.brokers.get(record.broker_id)
        if existing is None:
            return None
        for previous, name in ((-1, "crashed"), (existing.epoch, "back after a clean stop")):
            if _preceded(found, position, registration(record, previous_epoch=previous)):
                # after a clean stop nothing is left to change, and a crash may have left nothing either
                return name if step.changes_before or previous != -1 else "back after a clean stop"
        raise AssertionError(f"registration at {step.before.offset + 1} differs: {record}")
    if not isinstance(record, BrokerRegistrationChangeRecord):
        return None
    if record.fenced == 1:
        assert _preceded(found, position, FenceBroker(record.broker_id, record.broker_epoch)), record
        return "fenced"
    if record.fenced == -1:
        _followed(found, position, UnfenceBroker(record.broker_id, record.broker_epoch))
        return "unfenced"
    if record.in_controlled_shutdown == 1:
        _followed(found, position, BeginControlledShutdown(record.broker_id, record.broker_epoch))
        return "in controlled shutdown"
    return None


def _preceded(found: list[Step], position: int, request: Request[Any]) -> bool:
    """Whether the changes right before are ours; some of those before them may be of something else."""
    for first in range(position - found[position].changes_before, position + 1):
        theirs = [step.record for step in found[first:position]]
        if same(ours(request, found[first].before)[:-1], theirs):
            return True
    return False


def _followed(found: list[Step], position: int, request: Request[Any]) -> None:
    _, *changes = ours(request, found[position].before)
    theirs = [step.record for step in found[position + 1 : position + 1 + len(changes)]]
    assert same(changes, theirs), (changes, theirs)
