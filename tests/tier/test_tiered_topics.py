"""Topics in the remote tier, on a real node: what is there is read as before, and goes when its time has come."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from tests.broker.apis.asking import list_offset
from tests.tier.s3 import s3_server
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

from ottla.broker.apis import list_offsets
from ottla.broker.tier.fetching import TierFetch
from ottla.log.retention import delete_oldest
from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode

T0 = 1_700_000_000_000


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningNode]:
    with tiered_node(tmp_path) as running:
        yield running


def stored(running: RunningNode) -> list[str]:
    tier = running.node.tier
    assert tier is not None
    return [each.key for each in running.wait_for(tier.store.list(""))]


def configure(address: str, **configs: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_old_records_are_read_from_the_tier_also_after_a_restart(tmp_path: Path, kind: str) -> None:
    def story(url: str | None, **options: Any) -> None:
        with tiered_node(tmp_path, url, **options) as running:
            create(running.address)
            end = produce(running.address, 0, 40)
            until_local_from(running, end)
            assert partition(running).log.start_offset == 0
            assert consume(running.address, 0, end) == list(range(end))
        with tiered_node(tmp_path, url, **options) as running:
            assert partition(running).log.start_offset == 0
            end = produce(running.address, end, 4)
            assert consume(running.address, 7, end) == list(range(7, end))

    if kind == "folder":
        story(None)
    else:
        with s3_server() as s3:
            story(s3.url, **{f"rsm.config.{name}": value for name, value in s3.options.items()})


def test_only_closed_segments_are_copied_and_only_those_leave_the_disk(running: RunningNode) -> None:
    create(running.address, local_retention_ms="-2")
    end = produce(running.address, 0, 9)  # two batches a segment, the ninth is in the active one
    log = partition(running).log
    until(lambda: log.tiered_to == end - PER_BATCH - 1)
    assert log.local_start_offset == 0
    assert found(running, -5) == end - PER_BATCH - 1
    assert found(running, -6) == end - PER_BATCH


def found(running: RunningNode, timestamp: int) -> int:
    row = list_offset(running.address, TOPIC, timestamp)
    assert row.error_code is ErrorCode.none
    return int(row.offset)


def test_offsets_are_listed(running: RunningNode) -> None:
    create(running.address)
    end = produce(running.address, 0, 10, timestamp=T0)
    assert found(running, -5) in range(-1, end)
    until_local_from(running, end)
    assert (found(running, -2), found(running, -4), found(running, -5), found(running, -1)) == (0, end, end - 1, end)
    produce(running.address, end, 1, timestamp=T0)
    assert found(running, -4) in (end, end + PER_BATCH)
    for number in (0, 1, 7, 23, end - 1, end, end + 3):
        assert found(running, T0 + number) == number
    assert found(running, T0 - 1000) == 0
    assert found(running, T0 + 10**6) == -1
    consumer = Consumer({"bootstrap.servers": running.address, "group.id": "g"})
    assert [each.offset for each in consumer.offsets_for_times([TopicPartition(TOPIC, 0, T0 + 12)])] == [12]
    consumer.close()


def test_what_is_too_old_goes_from_the_tier_and_the_log_starts_after_it(running: RunningNode) -> None:
    create(running.address)
    produce(running.address, 0, 8, timestamp=T0)
    end = produce(running.address, 40, 4)
    until_local_from(running, end)
    configure(running.address, retention_ms="100000000")
    log = partition(running).log
    until(lambda: log.start_offset == 40)
    until(lambda: min(int(key.rpartition("/")[2][:20]) for key in stored(running)) == 40)
    assert found(running, -2) == 40
    assert consume(running.address, 40, end) == list(range(40, end))


def test_what_is_too_much_goes_from_the_tier(running: RunningNode) -> None:
    create(running.address)
    end = produce(running.address, 0, 12)
    until_local_from(running, end)
    configure(running.address, retention_bytes="2000")
    log = partition(running).log
    until(lambda: log.start_offset > 0)
    until(lambda: min(int(key.rpartition("/")[2][:20]) for key in stored(running)) >= log.start_offset)
    tier = running.node.tier
    assert tier is not None
    left = sum(each.size for each in running.wait_for(tier.store.list("")) if each.key.endswith(".log"))
    assert 2000 <= left < 3000
    assert consume(running.address, log.start_offset, end) == list(range(log.start_offset, end))


def test_records_that_are_deleted_go_from_the_tier(running: RunningNode) -> None:
    create(running.address)
    end = produce(running.address, 0, 12)
    until_local_from(running, end)
    admin = AdminClient({"bootstrap.servers": running.address})
    for future in admin.delete_records([TopicPartition(TOPIC, 0, 25)]).values():
        assert future.result().low_watermark == 25
    until(lambda: min(int(key.rpartition("/")[2][:20]) for key in stored(running)) == 20)
    assert consume(running.address, 25, end) == list(range(25, end))


def test_a_deleted_topic_leaves_nothing_in_the_tier(running: RunningNode) -> None:
    create(running.address)
    create(running.address, "kept")
    end = produce(running.address, 0, 8)
    produce(running.address, 0, 8, topic="kept")
    until_local_from(running, end)
    until_local_from(running, end, "kept")
    admin = AdminClient({"bootstrap.servers": running.address})
    for future in admin.delete_topics([TOPIC]).values():
        future.result()
    until(lambda: all(key.startswith("kept-") for key in stored(running)))
    assert consume(running.address, 0, end, topic="kept") == list(range(end))


def test_tiering_is_turned_off_with_all_that_is_there(running: RunningNode) -> None:
    create(running.address)
    end = produce(running.address, 0, 8)
    until_local_from(running, end)
    end = produce(running.address, end, 1)
    log = partition(running).log
    configure(running.address, local_retention_ms="-2", remote_log_copy_disable="true")
    local = log.local_start_offset
    assert consume(running.address, 0, end) == list(range(end))  # it can be read as before
    configure(running.address, remote_storage_enable="false", remote_log_delete_on_disable="true")
    until(lambda: stored(running) == [])
    assert log.start_offset >= local
    assert found(running, -2) == log.start_offset
    assert consume(running.address, log.start_offset, end) == list(range(log.start_offset, end))


def test_with_copying_off_nothing_new_goes_there(running: RunningNode) -> None:
    create(running.address, local_retention_ms="-2")
    end = produce(running.address, 0, 9)
    log = partition(running).log
    until(lambda: log.tiered_to == end - PER_BATCH - 1)
    configure(running.address, remote_log_copy_disable="true")
    before = stored(running)
    produce(running.address, end, 9)
    tier = running.node.tier
    assert tier is not None
    rounds = tier.rounds
    until(lambda: tier.rounds > rounds + 3)
    assert stored(running) == before


def test_what_was_read_is_not_left_to_the_garbage_collector(running: RunningNode) -> None:
    create(running.address)
    end = produce(running.address, 0, 30)
    until_local_from(running, end - 10)
    gc.collect()
    gc.disable()
    try:
        consume(running.address, 0, end)
        left = [each for each in gc.get_objects() if type(each) is TierFetch and each._reads]
    finally:
        gc.enable()
    assert left == []


def test_a_node_without_a_tier_tells_of_topics_that_need_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with tiered_node(tmp_path) as running:
        create(running.address)
    with tiered_node(tmp_path, remote_log_storage_system_enable=False):
        assert any(f"remote.storage.enable is on for {TOPIC}, and" in each for each in caplog.messages)


def test_what_leaves_the_disk_during_a_search_by_time_is_found(
    running: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(running.address, local_retention_ms="-2")
    produce(running.address, 0, 8, timestamp=T0)
    log = partition(running).log
    until(lambda: log.tiered_to >= 12, lambda: f"tiered to {log.tiered_to}")
    search = list_offsets._find_by_time

    async def later(*args: Any) -> Any:
        while log.local_start_offset <= 12:
            delete_oldest(log)
        return await search(*args)

    monkeypatch.setattr(list_offsets, "_find_by_time", later)
    assert list_offset(running.address, TOPIC, T0 + 12).offset == 12
