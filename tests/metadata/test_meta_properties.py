"""meta.properties and ids."""

from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from ottla.env.randomness import SeededRandom
from ottla.metadata import meta_properties
from ottla.metadata.meta_properties import MetaProperties, parse_uuid, random_uuid, uuid_text
from ottla.model.errors import OttlaError
from ottla.sim.disk import SimDisk

GOLDEN = Path(__file__).parent.parent / "golden" / "kafka-4.3.0-meta.properties"
META = MetaProperties("vfI6n-2XTx6CG4P2zbgsTQ", 1, parse_uuid("yEJOKc61UcB5w-TSH3aJYQ"))


def test_the_file_of_kafka_is_read() -> None:
    assert meta_properties.decode(GOLDEN.read_bytes()) == META


def test_the_file_has_the_lines_that_kafka_writes() -> None:
    ours = meta_properties.encode(META, now_ms=1794755688000).decode().splitlines()
    theirs = GOLDEN.read_text().splitlines()

    assert ours[:2] == theirs[:2]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize(
    "cluster_id", ["plain", "with space", " leading", "a=b:c#d!e\\f", "tab\there", "žluťoučký", ""]
)
def test_any_cluster_id_survives(cluster_id: str) -> None:
    meta = MetaProperties(cluster_id, 5, UUID(int=12345))

    assert meta_properties.decode(meta_properties.encode(meta, 0)) == meta


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "version"),
        (b"version=0\nbroker.id=1\n", "version 0"),
        (b"version=1\ncluster.id=x\nnode.id=1\n", "directory.id"),
        (b"version=1\ncluster.id=x\nnode.id=one\ndirectory.id=yEJOKc61UcB5w-TSH3aJYQ\n", "damaged"),
        (b"version=1\ncluster.id=x\nnode.id=1\ndirectory.id=short\n", "not an id"),
    ],
)
def test_a_file_that_does_not_say_who_it_belongs_to_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(OttlaError, match=reason):
        meta_properties.decode(data)


def test_a_directory_without_the_file_is_not_formatted() -> None:
    disk = SimDisk(Random(1))
    disk.make_dirs("/data")

    assert meta_properties.load(disk, "/data") is None
    meta_properties.store(disk, "/data", META, 0)
    assert meta_properties.load(disk, "/data") == META


def test_ids_are_printed_as_kafka_does() -> None:
    assert uuid_text(UUID(int=1)) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert parse_uuid("AAAAAAAAAAAAAAAAAAAAAQ") == UUID(int=1)


@pytest.mark.parametrize("text", ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAQ==", "AAAAAAAAAAAAAAAAAAAA+Q", "ž" * 22])
def test_what_is_not_an_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        parse_uuid(text)


def test_a_new_id_never_looks_like_an_option() -> None:
    random = SeededRandom(Random(1))

    assert not any(uuid_text(random_uuid(random)).startswith("-") for _ in range(2000))
