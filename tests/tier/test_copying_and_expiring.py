"""Copies and deletions go on beside each other, and stop and begin as the topic's configs say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.apis.asking import list_offset
from tests.tier.faulty_store import FaultyStore, faulty_stores
from tests.tier.test_crashes import accounted_for
from tests.tier.test_tiered_topics import T0, configure
from tests.tier.tiered import (
    PER_BATCH,
    TOPIC,
    consume,
    create,
    partition,
    produce,
    tiered_node,
    until_local_from,
)
from tests.waiting import until

from ottla.broker.apis.list_offsets import EARLIEST
from ottla.testing.node import RunningNode

Scene = tuple[RunningNode, FaultyStore]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with faulty_stores() as stores, tiered_node(tmp_path) as running:
        yield running, stores[0]


def first_stored(scene: Scene) -> int:
    running, store = scene
    return min(int(each.key.rpartition("/")[2][:20]) for each in running.wait_for(store.real.list("")))


def test_what_expires_goes_while_copies_fail(scene: Scene) -> None:
    running, store = scene
    create(running.address)
    produce(running.address, 0, 8, timestamp=T0)
    end = produce(running.address, 40, 4)
    until_local_from(running, end)
    running.on_loop(lambda: store.fail("put"))
    end = produce(running.address, end, 4)
    configure(running.address, retention_ms="100000000")
    until(lambda: first_stored(scene) == 40)
    assert partition(running).log.start_offset == 40
    assert consume(running.address, 40, end) == list(range(40, end))


def refused_to_delete(scene: Scene) -> int:
    """All is in the store, some of it has expired, and the store does not let it go. Gives the end of the log."""
    running, store = scene
    create(running.address)
    end = produce(running.address, 0, 8)
    until_local_from(running, end)
    running.on_loop(lambda: store.fail("delete"))
    configure(running.address, retention_bytes="2000")
    until(lambda: "delete" in {each[0] for each in store.asked})
    return end


def test_copies_go_on_while_nothing_can_be_deleted(scene: Scene) -> None:
    running, store = scene
    end = refused_to_delete(scene)
    end = produce(running.address, end, 8)
    until_local_from(running, end)
    running.on_loop(store.heal)
    accounted_for(running)


def test_a_deletion_that_was_begun_is_gone_on_with_when_copying_is_off(scene: Scene) -> None:
    running, store = scene
    refused_to_delete(scene)
    configure(running.address, local_retention_ms="-2", remote_log_copy_disable="true")
    running.on_loop(store.heal)
    accounted_for(running)


def test_copying_ends_when_it_is_turned_off(scene: Scene) -> None:
    """Not when all that waits to be copied is."""
    running, store = scene
    go_on = running.on_loop(asyncio.Event)

    async def wait(operation: str, key: str) -> None:
        if operation == "put":
            await go_on.wait()

    store.before = wait
    create(running.address, local_retention_ms="-2")
    produce(running.address, 0, 21)
    until(lambda: store.asked)
    configure(running.address, remote_log_copy_disable="true")
    log = partition(running).log
    until(lambda: not log.config.copies_to_tier)
    running.on_loop(go_on.set)
    tier = running.node.tier
    assert tier is not None
    until(lambda: log.tiered_to == 2 * PER_BATCH - 1)  # the one that was under way
    rounds = tier.rounds
    until(lambda: tier.rounds > rounds + 3)
    assert log.tiered_to == 2 * PER_BATCH - 1
    configure(running.address, remote_log_copy_disable="false")
    until(lambda: log.tiered_to == 20 * PER_BATCH - 1)


def test_what_is_turned_off_and_on_again_is_copied_anew(scene: Scene) -> None:
    """What was in the tier is gone from there: the disk may not give it up because it was copied once."""
    running, store = scene
    create(running.address, local_retention_ms="-2")
    end = produce(running.address, 0, 9)
    log = partition(running).log
    until(lambda: log.tiered_to == end - PER_BATCH - 1)
    configure(running.address, remote_storage_enable="false", remote_log_delete_on_disable="true")
    until(lambda: running.wait_for(store.real.list("")) == [])
    assert log.start_offset == 0
    configure(running.address, remote_storage_enable="true", local_retention_ms="1")
    until_local_from(running, end)
    assert log.start_offset == 0
    assert consume(running.address, 0, end) == list(range(end))
    accounted_for(running)


def test_what_is_turned_off_while_it_is_copied_leaves_nothing(scene: Scene) -> None:
    running, store = scene
    go_on = running.on_loop(asyncio.Event)

    async def wait(operation: str, key: str) -> None:
        if operation == "put" and key.endswith(".manifest"):
            await go_on.wait()

    create(running.address, local_retention_ms="-2")
    store.before = wait
    end = produce(running.address, 0, 9)
    until(lambda: any(key.endswith(".manifest") for _, key in store.asked))
    configure(running.address, remote_storage_enable="false", remote_log_delete_on_disable="true")
    log = partition(running).log
    until(lambda: not log.config.remote_storage_enable)
    running.on_loop(go_on.set)
    until(lambda: running.wait_for(store.real.list("")) == [])
    assert consume(running.address, 0, end) == list(range(end))


def test_what_is_turned_off_while_the_store_stands_still_begins_on_the_disk(scene: Scene) -> None:
    running, store = scene
    create(running.address)
    middle = produce(running.address, 0, 8)
    until_local_from(running, middle)
    reached = running.on_loop(lambda: store.stand_still("put", "log", done=False))
    end = produce(running.address, middle, 8)
    until(reached.is_set)
    configure(running.address, remote_storage_enable="false", remote_log_delete_on_disable="true")
    until(lambda: not partition(running).log.config.remote_storage_enable)
    assert list_offset(running.address, TOPIC, EARLIEST).offset == middle
    assert consume(running.address, middle, end) == list(range(middle, end))
