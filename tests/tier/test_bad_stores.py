"""A store that is down, slow or lies: the log goes on, readers are told to come again, others are not harmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis.asking import FETCH, LIST_OFFSETS, ask, list_offset
from tests.tier.faulty_store import FaultyStore, faulty_stores
from tests.tier.tiered import PER_BATCH, TOPIC, consume, create, partition, produce, tiered_node, until_local_from
from tests.waiting import until

from ottla.model.errors import ErrorCode
from ottla.record.reader import iterate_batches
from ottla.testing.node import RunningNode


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[RunningNode, FaultyStore]]:
    with faulty_stores() as stores, tiered_node(tmp_path, remote_fetch_max_wait_ms=200) as running:
        create(running.address)
        yield running, stores[0]


def fetch(running: RunningNode, offset: int, isolation: int = 0) -> Any:
    rows = [
        {
            "partition": 0, "current_leader_epoch": -1, "fetch_offset": offset, "last_fetched_epoch": -1,
            "log_start_offset": -1, "partition_max_bytes": 1 << 20,
        }
    ]  # fmt: skip
    answer = ask(
        running.address, FETCH, 12, replica_id=-1, max_wait=timedelta(seconds=5), min_bytes=1, max_bytes=1 << 20,
        isolation_level=isolation, session_id=0, session_epoch=-1, topics=[{"topic": TOPIC, "partitions": rows}],
        forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return answer.responses[0].partitions[0]


def test_copies_catch_up_when_the_store_is_back(scene: tuple[RunningNode, FaultyStore]) -> None:
    running, store = scene
    running.on_loop(lambda: store.fail("put"))
    end = produce(running.address, 0, 8)
    until(lambda: sum(each[0] == "put" for each in store.asked) > 3)
    log = partition(running).log
    assert (log.local_start_offset, log.tiered_to) == (0, -1)
    assert consume(running.address, 0, end) == list(range(end))
    running.on_loop(store.heal)
    until_local_from(running, end)
    assert consume(running.address, 0, end) == list(range(end))


def test_readers_are_told_to_come_again(scene: tuple[RunningNode, FaultyStore]) -> None:
    running, store = scene
    end = produce(running.address, 0, 8)
    until_local_from(running, end)
    running.on_loop(lambda: store.fail("get", "read", "put"))
    assert fetch(running, 0).error_code is ErrorCode.kafka_storage_error
    assert list_offset(running.address, TOPIC, 5).error_code is ErrorCode.kafka_storage_error
    end = produce(running.address, end, 1)
    assert fetch(running, end - PER_BATCH).error_code is ErrorCode.none
    running.on_loop(store.heal)
    assert consume(running.address, 0, end) == list(range(end))


def test_what_takes_too_long_is_there_for_who_asks_again(scene: tuple[RunningNode, FaultyStore]) -> None:
    running, store = scene
    end = produce(running.address, 0, 8)
    until_local_from(running, end)
    go_on = running.on_loop(asyncio.Event)

    async def wait(operation: str, key: str) -> None:
        await go_on.wait()

    store.before = wait
    row = fetch(running, 0)
    assert (row.error_code, row.records or b"", row.high_watermark) == (ErrorCode.none, b"", end)
    running.on_loop(go_on.set)
    until(lambda: fetch(running, 0).records)


def test_reads_that_nobody_waits_for_any_more_do_not_pile_up(scene: tuple[RunningNode, FaultyStore]) -> None:
    """There may be a limited number of them, and other partitions need some."""
    running, store = scene
    end = produce(running.address, 0, 8)
    until_local_from(running, end)
    store.stand_still("get", "log", done=False)
    tier = running.node.tier
    assert tier is not None
    for _ in range(3):
        assert fetch(running, 0).error_code is ErrorCode.none
    until(lambda: tier.reads.pending == 0)


def test_searches_by_time_do_not_wait_for_each_other(tmp_path: Path) -> None:
    topics = [TOPIC, "invoices", "payments"]
    with faulty_stores() as stores, tiered_node(tmp_path) as running:
        for topic in topics:
            create(running.address, topic)
            until_local_from(running, produce(running.address, 0, 4, topic=topic, timestamp=1_700_000_000_000), topic)
        asked: set[str] = set()
        go_on = running.on_loop(asyncio.Event)

        async def wait_for_all(operation: str, key: str) -> None:
            asked.update(topic for topic in topics if key.startswith(topic))
            if len(asked) == len(topics):
                go_on.set()
            await go_on.wait()

        stores[0].before = wait_for_all
        row = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": 1_700_000_000_007}
        answer = ask(
            running.address, LIST_OFFSETS, 11, replica_id=-1, isolation_level=0, timeout=timedelta(seconds=20),
            topics=[{"name": topic, "partitions": [row]} for topic in topics],
        )  # fmt: skip
        assert [(each.partitions[0].error_code, each.partitions[0].offset) for each in answer.topics] == [
            (ErrorCode.none, 7)
        ] * 3


def test_who_names_no_time_to_wait_waits_as_the_broker_is_told_to(scene: tuple[RunningNode, FaultyStore]) -> None:
    running, _ = scene
    end = produce(running.address, 0, 4, timestamp=1_700_000_000_000)
    until_local_from(running, end)
    row = list_offset(running.address, TOPIC, 1_700_000_000_007, timeout=timedelta(0))
    assert (row.error_code, row.offset) == (ErrorCode.none, 7)


def test_a_search_by_time_ends_in_time(tmp_path: Path) -> None:
    with faulty_stores() as stores, tiered_node(tmp_path, remote_list_offsets_request_timeout_ms=100) as running:
        create(running.address)
        end = produce(running.address, 0, 8)
        until_local_from(running, end)
        stores[0].stand_still("get", "timeindex", done=False)
        assert list_offset(running.address, TOPIC, 5, version=9).error_code is ErrorCode.request_timed_out


def flipped(key: str, data: bytes) -> bytes:
    return data[:70] + bytes((data[70] ^ 1,)) + data[71:] if key.endswith(".log") else data


def cut_short(key: str, data: bytes) -> bytes:
    return data[:-10] if key.endswith(".log") else data


def another_manifest(key: str, data: bytes) -> bytes:
    return data.replace(b'"format":1', b'"format":9') if key.endswith(".manifest") else data


@pytest.mark.parametrize("lie", [flipped, cut_short, another_manifest])
def test_what_is_not_as_it_was_put_is_not_given_to_anyone(
    scene: tuple[RunningNode, FaultyStore], lie: Callable[[str, bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    running, store = scene
    end = produce(running.address, 0, 8)
    until_local_from(running, end)
    store.change = lie
    assert fetch(running, 0).error_code is ErrorCode.corrupt_message
    kind = "manifest" if lie is another_manifest else "log"
    assert "/0/00000000000000000000-" in caplog.text and f".{kind}" in caplog.text
    running.on_loop(store.heal)
    assert consume(running.address, 0, end) == list(range(end))


def test_a_missing_object_is_named(
    scene: tuple[RunningNode, FaultyStore], caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    running, store = scene
    end = produce(running.address, 0, 4)
    until_local_from(running, end)
    logs = sorted(each.key for each in running.wait_for(store.list("")) if each.key.endswith(".log"))
    gone = logs[1]  # where it begins depends on when the segment before it was closed
    running.wait_for(store.delete([gone]))
    assert fetch(running, int(gone.rpartition("/")[2][:20])).error_code is ErrorCode.kafka_storage_error
    assert f"{gone} is not in the store" in caplog.text
    assert fetch(running, 0).records


def test_an_answer_is_as_large_as_was_asked_for(scene: tuple[RunningNode, FaultyStore]) -> None:
    running, _ = scene
    end = produce(running.address, 0, 8)
    until_local_from(running, end)
    for offset in range(end):
        records = fetch(running, offset).records
        first = next(iter(iterate_batches(records)))[0]
        assert first.base_offset <= offset <= first.last_offset
