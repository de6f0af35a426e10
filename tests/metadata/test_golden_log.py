"""A metadata log and a bootstrap file written by Apache Kafka 4.3: what we make of them, and that ours look alike."""

from pathlib import Path

import pytest

from ottla.metadata import bootstrap, loader
from ottla.metadata.image import ConfigResource, LeaderRecoveryState, ResourceType, VersionRange
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.model.errors import OttlaError
from ottla.raft.control_records import control_batch
from ottla.raft.log_view import LeaderChangeRecord
from ottla.record.batch import HEADER_SIZE
from ottla.record.reader import iterate_batches

GOLDEN = Path(__file__).parent.parent / "golden"
LOG = (GOLDEN / "kafka-4.3.0-cluster-metadata.log").read_bytes()
BOOTSTRAP = (GOLDEN / "kafka-4.3.0-bootstrap.checkpoint").read_bytes()


def test_a_log_of_kafka_is_replayed() -> None:
    """It saw two topics, one deleted; a kill -9 (fenced, re-elected uncleanly, ELR) and a clean restart."""
    image, transactions = loader.load(batch for _, batch in iterate_batches(LOG))

    assert not transactions.is_open
    assert (image.metadata_version, image.features["transaction.version"], image.epoch) == (30, 2, 3)
    assert list(image.topic_ids) == ["alpha"]
    alpha = image.topic("alpha")
    assert alpha is not None
    assert list(alpha.partitions) == [0, 1, 2, 3]
    partition = alpha.partitions[0]
    assert (partition.replicas, partition.elr, partition.last_known_elr) == ((1,), (), ())
    assert image.topic_config("alpha") == {"retention.ms": "70000"}
    assert image.config(ConfigResource(ResourceType.BROKER, "")) == {"min.insync.replicas": "1"}
    assert image.next_producer_id == 1000
    assert {key[0] for key in image.held if isinstance(key, tuple)} == {"scram", "quota"}
    broker = image.brokers[1]
    assert broker.features["metadata.version"] == VersionRange(7, 30)
    assert partition.directories == broker.directories
    assert image.controllers[1].endpoints[0].name == "CONTROLLER"


def test_a_restart_of_the_only_replica_bumps_the_leader_epoch_twice() -> None:
    """Once when it goes and once when it is back: seen in Kafka's log after the kill, before the clean stop."""
    until_first_restart = (batch for header, batch in iterate_batches(LOG) if header.base_offset <= 201)
    image, _ = loader.load(until_first_restart)
    topic = image.topic("alpha")
    assert topic is not None

    partition = topic.partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.isr) == (1, 2, (1,))
    assert partition.leader_recovery_state is LeaderRecoveryState.RECOVERING


def test_our_leader_change_is_byte_for_byte_that_of_kafka() -> None:
    changes = [(header, batch) for header, batch in iterate_batches(LOG) if header.is_control]

    assert len(changes) == 3
    for header, batch in changes:
        ours = control_batch([LeaderChangeRecord(1, (1,), (1,))], header.base_timestamp)
        assert ours[16:] == batch[16:]


def test_bootstrap_records_of_kafka_are_read() -> None:
    records = bootstrap.decode(BOOTSTRAP)

    assert records[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert {record.name for record in records if isinstance(record, FeatureLevelRecord)} == {
        "metadata.version", "eligible.leader.replicas.version", "group.version", "share.version", "streams.version",
        "transaction.version",
    }  # fmt: skip


def test_our_bootstrap_file_differs_from_that_of_kafka_in_timestamps_only() -> None:
    theirs = list(iterate_batches(BOOTSTRAP))
    ours = list(iterate_batches(bootstrap.encode(bootstrap.decode(BOOTSTRAP), 30, now_ms=5)))

    for (their_header, their_batch), (our_header, our_batch) in zip(theirs, ours, strict=True):
        timeless = {"base_timestamp": 0, "max_timestamp": 0, "crc": 0}
        assert our_header._replace(**timeless) == their_header._replace(**timeless)
        assert our_batch[HEADER_SIZE:] == their_batch[HEADER_SIZE:]


@pytest.mark.parametrize("cut", [0, 50, 83, 336, 410])
def test_a_bootstrap_file_that_was_cut_is_refused(cut: int) -> None:
    with pytest.raises(OttlaError, match="no header or no footer"):
        bootstrap.decode(BOOTSTRAP[:cut])


def test_a_bootstrap_file_with_a_flipped_bit_is_refused() -> None:
    damaged = bytearray(BOOTSTRAP)
    damaged[200] ^= 1

    with pytest.raises(OttlaError, match="checksum"):
        bootstrap.decode(bytes(damaged))


def test_a_damaged_metadata_log_is_refused() -> None:
    damaged = bytearray(LOG)
    damaged[1000] ^= 1

    with pytest.raises(OttlaError, match="checksum is wrong"):
        loader.load(batch for _, batch in iterate_batches(damaged))
