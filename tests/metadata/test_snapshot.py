"""Snapshots of the metadata: whatever the records added up to comes back, and Kafka's own are read."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from tests.metadata.test_image_and_delta import histories

from ottla.metadata import snapshot
from ottla.metadata.controller.features import LATEST_METADATA_VERSION
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, METADATA_VERSION, MetadataImage
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.metadata.snapshot import Surroundings
from ottla.model.errors import OttlaError
from ottla.raft import snapshot_format
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.voters import Endpoint, ReplicaKey, VersionRange, VoterNode, VoterSet

VOTERS = VoterSet.of(
    VoterNode(ReplicaKey(i, UUID(int=1000 + i)), (Endpoint("CONTROLLER", f"host{i}", 9090 + i),), VersionRange(0, 1))
    for i in (1, 2, 3)
)


@settings(max_examples=50)
@given(histories())
def test_an_image_comes_back_from_its_snapshot(history: list[MetadataRecord]) -> None:
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay_all([FeatureLevelRecord(name=METADATA_VERSION, feature_level=LATEST_METADATA_VERSION), *history])
    image = delta.apply(41, 7)

    id, data = snapshot.id_of(image), snapshot.encode(image, 456, Surroundings(123))
    contents = snapshot_format.decode(data, "it", "")

    assert id == OffsetAndEpoch(42, 7)
    assert contents.last_contained_timestamp == 123
    assert as_sets(snapshot.load(contents, id)) == as_sets(image)


def as_sets(image: MetadataImage) -> MetadataImage:
    """Topics without partitions have none, whichever way that is said."""
    return replace(image, configs={name: values for name, values in image.configs.items() if values})


def test_a_snapshot_says_who_votes() -> None:
    data = snapshot.encode(EMPTY_IMAGE, 5, Surroundings(0, 1, VOTERS))

    contents = snapshot_format.decode(data, "it", "")

    assert (contents.kraft_version, contents.voters) == (1, VOTERS)


@pytest.mark.parametrize("cut", [0, 10, 80, -1, -100])
def test_a_snapshot_that_was_cut_is_refused(cut: int) -> None:
    data = snapshot.encode(EMPTY_IMAGE, 5, Surroundings(0, 1, VOTERS))

    with pytest.raises(OttlaError, match=r"it is damaged|it has no"):
        snapshot_format.decode(data[:cut], "it", "")


def test_a_snapshot_with_a_wrong_bit_is_refused() -> None:
    data = snapshot.encode(EMPTY_IMAGE, 5, Surroundings(0, 1, VOTERS))

    with pytest.raises(OttlaError, match="damaged"):
        snapshot_format.decode(data[:100] + bytes([data[100] ^ 1]) + data[101:], "it", "")


def test_names_are_those_of_kafka() -> None:
    id = OffsetAndEpoch(1234, 5)

    assert snapshot_format.file_name(id) == "00000000000000001234-0000000005.checkpoint"
    assert snapshot_format.parse_name(snapshot_format.file_name(id)) == (id, ".checkpoint")
    assert snapshot_format.parse_name("00000000000000001234-0000000005-6543.checkpoint.part") == (
        id,
        ".checkpoint.part",
    )
    assert snapshot_format.parse_name("00000000000000001234.snapshot") is None
    assert snapshot_format.parse_name("bootstrap.checkpoint") is None


GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.skipif(not list(GOLDEN.glob("kafka-4.3.0-*-*.checkpoint")), reason="no snapshot of Kafka was recorded")
def test_a_snapshot_of_kafka_is_read() -> None:
    path = next(GOLDEN.glob("kafka-4.3.0-*-*.checkpoint"))
    parsed = snapshot_format.parse_name(path.name.removeprefix("kafka-4.3.0-"))
    assert parsed is not None

    image = snapshot.load(snapshot_format.decode(path.read_bytes(), path.name, ""), parsed[0])

    assert image.metadata_version >= 20
    assert image.brokers
