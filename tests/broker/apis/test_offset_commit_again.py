"""Which commits are known again: those that differ only in their offsets, and no others."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from ottla.broker.apis.offset_commit_again import CommitsBefore
from ottla.broker.apis.offset_commit_format import BY_ID, FLEXIBLE, read_usual
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.wire.build import build, request_type
from ottla.wire.codec import encode_body

KEY = 8
IMAGE = MetadataImage()
TOPIC = TopicImage(UUID(int=5), "örders", {})
USUAL: dict[str, Any] = {
    "group": "billing", "generation": 7, "member": "rdkafka-1", "instance": None, "topic": TOPIC.name,
    "topic_id": TOPIC.id, "partitions": (4, 1), "metadata": "", "offset": 70,
}  # fmt: skip


def body(version: int, **other: Any) -> bytes:
    told = USUAL | other
    rows = [
        {"partition_index": number, "committed_offset": told["offset"] + number, "committed_leader_epoch": number,
         "committed_metadata": told["metadata"]}
        for number in told["partitions"]
    ]  # fmt: skip
    values = {
        "group_id": told["group"], "generation_id_or_member_epoch": told["generation"], "member_id": told["member"],
        "group_instance_id": told["instance"],
        "topics": [{"name": told["topic"], "topic_id": told["topic_id"], "partitions": rows}],
    }  # fmt: skip
    return encode_body(build(request_type(KEY, version), values))


def known(version: int, **other: Any) -> CommitsBefore:
    before, data = CommitsBefore(), body(version, **other)
    request = read_usual(version, data)
    assert request is not None
    before.keep(version, data, request, IMAGE, TOPIC)
    return before


@pytest.mark.parametrize("version", range(FLEXIBLE, BY_ID + 1))
@pytest.mark.parametrize("instance", [None, "one"])
def test_other_offsets(version: int, instance: str | None) -> None:
    before = known(version, instance=instance)
    for metadata in ("", None):
        found = before.find(version, body(version, instance=instance, offset=2**40, metadata=metadata), IMAGE)
        assert found is not None
        assert (found.offsets, found.epochs) == ((2**40 + 4, 2**40 + 1), (4, 1))
        assert found.again.member == ("billing", "rdkafka-1", instance, 7)
        assert found.again.places.places == [("örders", 4), ("örders", 1)]


@pytest.mark.parametrize("version", range(FLEXIBLE, BY_ID + 1))
@pytest.mark.parametrize(
    "other",
    [
        {"group": "billinh"}, {"generation": 8}, {"member": "rdkafka-2"}, {"instance": "two"}, {"partitions": (1, 4)},
        {"partitions": (4,)}, {"partitions": (4, 1, 2)}, {"metadata": "x"}, {"partitions": ()},
    ],
    ids=str,
)  # fmt: skip
def test_others(version: int, other: dict[str, Any]) -> None:
    assert known(version).find(version, body(version, **other), IMAGE) is None


@pytest.mark.parametrize("version", range(FLEXIBLE, BY_ID + 1))
def test_another_topic_version_or_image(version: int) -> None:
    other = body(version, topic="other!!", topic_id=UUID(int=6))
    assert known(version).find(version, other, IMAGE) is None
    assert known(version).find(version, body(version), MetadataImage()) is None
    elsewhere = version - 1 if version > FLEXIBLE else version + 1
    assert known(version).find(elsewhere, body(version), IMAGE) is None


@pytest.mark.parametrize("version", range(FLEXIBLE, BY_ID + 1))
def test_one_that_is_cut_off_or_goes_on(version: int) -> None:
    before, data = known(version), body(version)
    assert all(before.find(version, data[:end], IMAGE) is None for end in range(len(data)))
    assert before.find(version, data + b"\x00", IMAGE) is None
    assert before.find(version, data[:-1] + b"\x01", IMAGE) is None
    assert before.find(version, data[:-2] + b"\x01\x00", IMAGE) is None


def test_only_so_many_are_kept() -> None:
    before = CommitsBefore()
    for number in range(5000):
        data = body(9, group=f"group-{number}")
        request = read_usual(9, data)
        assert request is not None
        before.keep(9, data, request, IMAGE, TOPIC)
    assert before.find(9, body(9, group="group-4999"), IMAGE) is not None
    assert before.find(9, body(9, group="group-0"), IMAGE) is None
