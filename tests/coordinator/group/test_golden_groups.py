"""`__consumer_offsets` as Apache Kafka left it is loaded here, and all its groups are what they were there."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import create, topic_to_create
from tests.broker.apis.committing import await_coordinator, commit, fetch
from tests.coordinator.group.record_kafka_groups import (
    CLASSIC,
    GOLDEN,
    MODERN,
    PARTITIONS,
    TOPICS,
    described,
    described_modern,
    is_served,
    listed,
    offsets,
)
from tests.corpus.conversations.talk import Talk
from tests.corpus.conversations.voices import ORDERS, Voice
from tests.waiting import until

from ottla.env.randomness import SeededRandom
from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode, running_node

SETTINGS: dict[str, str | int | bool] = {
    "offsets_topic_num_partitions": PARTITIONS,
    "group_initial_rebalance_delay_ms": 0,
}


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / "manifest.json").read_text())
    return found


@pytest.fixture
def folder(tmp_path: Path, manifest: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """It has Kafka's topics, under Kafka's ids, and Kafka's log in place of our own."""
    with running_node(tmp_path, **SETTINGS) as node:
        for name, partitions in TOPICS.items():
            with monkeypatch.context() as patched:
                patched.setattr(SeededRandom, "uuid", lambda _, name=name: UUID(manifest["topics"][name]))
                create(node.address, topic_to_create(name, partitions))
        await_coordinator(node.address)
    put_logs(tmp_path)
    return tmp_path


@pytest.fixture
def node(folder: Path) -> Iterator[RunningNode]:
    with loaded(folder) as node:
        yield node


@contextmanager
def loaded(folder: Path) -> Iterator[RunningNode]:
    with running_node(folder, **SETTINGS) as node:
        until(lambda: is_served(node.address), "the coordinator is loaded")
        yield node


def put_logs(data: Path) -> None:
    """In place of what is there, as if the node had been killed."""
    for number in range(PARTITIONS):
        for file in (data / f"__consumer_offsets-{number}").iterdir():
            if file.name != "partition.metadata":
                file.unlink()
    with tarfile.open(GOLDEN / "kafka-groups.tar.xz") as tar:
        for entry in tar.getmembers():
            partition, _, name = entry.name.partition("/")
            content = tar.extractfile(entry)
            assert content is not None
            (data / f"__consumer_offsets-{partition}" / name).write_bytes(content.read())
    (data / ".kafka_cleanshutdown").unlink()


def test_its_groups_and_offsets_are_found(node: RunningNode, manifest: dict[str, Any]) -> None:
    assert listed(node.address) == manifest["groups"]
    for group in CLASSIC:
        assert described(node.address, group) == manifest["classic"][group], group
    for group in (*CLASSIC, *MODERN):
        assert offsets(node.address, group) == manifest["offsets"][group], group


@pytest.mark.parametrize("group", MODERN)
def test_its_groups_of_the_consumer_protocol_are_found(node: RunningNode, manifest: dict[str, Any], group: str) -> None:
    assert described_modern(node.address, group) == manifest["modern"][group]


def test_a_transaction_that_is_not_over_is_waited_for(node: RunningNode) -> None:
    (found,) = fetch(node.address, "open", {ORDERS: [2]}, stable=True).groups
    assert [row.error_code for row in found.topics[0].partitions] == [ErrorCode.unstable_offset_commit]


def test_its_members_go_on_where_they_were(node: RunningNode, manifest: dict[str, Any]) -> None:
    ids = {name: UUID(value) for name, value in manifest["topics"].items()}
    with Talk(node.port, "", ids) as talk:
        first, second = (Voice(talk, member[0], "stable") for member in manifest["classic"]["stable"]["members"])
        for voice in (first, second):
            voice.id, voice.generation = voice.name, 2
            assert voice.heartbeat().error_code is ErrorCode.none
        assert first.sync().assignment == bytes.fromhex(manifest["classic"]["stable"]["members"][0][5])
        (topic,) = first.commit(99).topics
        assert topic.partitions[0].error_code is ErrorCode.none
        static = Voice(talk, "static", "static", "i")
        assert static.join().error_code is ErrorCode.none
        assert static.sync().assignment == b"all"
        second.leave()
        first.heartbeat_until(ErrorCode.rebalance_in_progress)
        assert first.join(session=60_000).generation_id == 3


def test_what_is_written_on_top_of_it_is_kept(folder: Path, manifest: dict[str, Any]) -> None:
    with loaded(folder) as node:
        commit(node.address, "simple", {ORDERS: {0: 11}})
        (deleted,) = asking.ask(node.address, asking.DELETE_GROUPS, 2, groups_names=["left"]).results
        assert deleted.error_code is ErrorCode.none
    with loaded(folder) as node:
        assert offsets(node.address, "simple")[ORDERS][0][:2] == [0, 11]
        assert described(node.address, "left")["state"] == "Dead"
        assert described(node.address, "stable") == manifest["classic"]["stable"]
        for group in MODERN:
            assert offsets(node.address, group) == manifest["offsets"][group], group
