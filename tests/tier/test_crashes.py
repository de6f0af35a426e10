"""A node dies at every step of a copy and of a deletion: nothing is lost, and no object is left unaccounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from tests.tier.faulty_store import FaultyStore, faulty_stores
from tests.tier.tiered import TOPIC, consume, create, partition, produce, tiered_node, until_local_from
from tests.waiting import until

from ottla.broker.tier.metadata_topic import TierMetadata
from ottla.testing.node import RunningNode
from ottla.tier.layout import Kind, object_key
from ottla.tier.metadata_records import Event
from ottla.tier.remote_segment import RemoteSegment, SegmentState, SegmentUpdate

KINDS = ["log", "index", "timeindex", "leader-epoch-checkpoint", "snapshot", "manifest"]


@contextmanager
def dying_node(folder: Path, prepare: Callable[[FaultyStore], None], **settings: Any) -> Iterator[RunningNode]:
    """What the node does with its store ends in the middle; all else ends in order, which is more than a crash does."""
    with faulty_stores() as stores, tiered_node(folder, **settings) as running:
        running.on_loop(lambda: prepare(stores[0]))
        yield running


def set_retention(address: str, size: int) -> None:
    entry = ConfigEntry("retention.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def accounted_for(running: RunningNode) -> None:
    """Every object in the store belongs to a segment that can be read, and every such segment has all its objects."""
    tier = running.node.tier
    assert tier is not None
    part = partition(running)

    def problem() -> str | None:
        remote = tier.metadata.logs[part.topic_id, 0]
        unsettled = [each for each in remote.listed() if each.state is not SegmentState.COPY_FINISHED]
        if unsettled:
            return f"{unsettled[0].state.name}"
        known = {object_key(each, kind) for each in remote.readable() for kind in Kind if kind is not Kind.TXN_INDEX}
        there = {each.key for each in running.wait_for(tier.store.list(""))}
        return None if known == there else f"unknown {sorted(there - known)}, missing {sorted(known - there)}"

    until(lambda: problem() is None, problem)


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_in_the_middle_of_a_copy(tmp_path: Path, kind: str, done: bool) -> None:
    reached: list[asyncio.Event] = []
    with dying_node(tmp_path, lambda store: reached.append(store.stand_still("put", kind, done=done))) as running:
        create(running.address)
        end = produce(running.address, 0, 8)
        until(lambda: reached[0].is_set())
        assert partition(running).log.local_start_offset == 0  # nothing goes before it is there
    with tiered_node(tmp_path) as running:
        until_local_from(running, end)
        assert consume(running.address, 0, end) == list(range(end))
        accounted_for(running)


def test_what_was_begun_is_deleted_when_there_is_another_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before: that it is finished may be told by a record that is still under way, and believed by a follower."""
    reached: list[asyncio.Event] = []
    with dying_node(tmp_path, lambda store: reached.append(store.stand_still("put", "manifest", done=True))) as running:
        create(running.address)
        end = produce(running.address, 0, 8)
        until(lambda: reached[0].is_set())
    told: list[Event] = []
    publish = TierMetadata.publish

    async def listening(self: TierMetadata, *events: Event) -> None:
        told.extend(events)
        await publish(self, *events)

    monkeypatch.setattr(TierMetadata, "publish", listening)
    with tiered_node(tmp_path) as running:
        until_local_from(running, end)
        accounted_for(running)
    states = [each.state for each in told if isinstance(each, RemoteSegment | SegmentUpdate)]
    assert states[:2] == [SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED]
    assert SegmentState.DELETE_FINISHED in states


def test_many_are_deleted_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To publish something takes up to half a second where the topic is led elsewhere."""
    with tiered_node(tmp_path) as running:
        create(running.address)
        until_local_from(running, produce(running.address, 0, 20))
    told: list[int] = []
    publish = TierMetadata.publish

    async def listening(self: TierMetadata, *events: Event) -> None:
        told.extend(len(events) for each in events[:1] if isinstance(each, SegmentUpdate))
        await publish(self, *events)

    monkeypatch.setattr(TierMetadata, "publish", listening)
    with tiered_node(tmp_path) as running:
        set_retention(running.address, 2000)
        until(lambda: partition(running).log.start_offset >= 50)
        accounted_for(running)
    assert max(told) >= 4


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_in_the_middle_of_a_deletion(tmp_path: Path, kind: str, done: bool) -> None:
    with tiered_node(tmp_path) as running:
        create(running.address, retention_bytes="2000")
    reached: list[asyncio.Event] = []
    with dying_node(tmp_path, lambda store: reached.append(store.stand_still("delete", kind, done=done))) as running:
        end = produce(running.address, 0, 12)
        until(lambda: reached[0].is_set())
    with tiered_node(tmp_path) as running:
        until_local_from(running, end)
        log = partition(running).log
        until(lambda: log.start_offset >= 30)
        accounted_for(running)
        first = log.start_offset
        assert consume(running.address, first, end) == list(range(first, end))


@pytest.mark.parametrize("kind", ["manifest", "log"])
def test_in_the_middle_of_clearing_away_a_deleted_topic(tmp_path: Path, kind: str) -> None:
    reached: list[asyncio.Event] = []
    with dying_node(tmp_path, lambda store: reached.append(store.stand_still("delete", kind, done=False))) as running:
        create(running.address)
        end = produce(running.address, 0, 8)
        until_local_from(running, end)
        admin = AdminClient({"bootstrap.servers": running.address})
        for future in admin.delete_topics([TOPIC]).values():
            future.result()
        until(lambda: reached[0].is_set())
    with tiered_node(tmp_path) as running:
        tier = running.node.tier
        assert tier is not None
        until(lambda: running.wait_for(tier.store.list("")) == [])
        until(lambda: not tier.metadata.logs)
