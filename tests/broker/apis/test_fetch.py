"""Fetch: what an answer begins with, whom it is given to, and when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.broker.apis.asking import FETCH, PRODUCE, ask
from tests.waiting import NEVER_MS

from ottla.broker.apis.fetch_format import Row, write_answer
from ottla.log.index import NotInMemory
from ottla.log.segment import Segment
from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.reader import iterate_batches
from ottla.record.records import Record
from ottla.replica.partition import Fetched
from ottla.testing.node import RunningNode
from ottla.wire import codec

MIB = 1 << 20


def a_batch(size: int = 1000) -> bytes:
    return build_batch([Record(None, b"v" * size, int(time.time() * 1000))])


def produce(address: str, topic: str, partition: int, data: bytes) -> Any:
    rows = [{"index": partition, "records": data}]
    return ask(
        address, PRODUCE, 9, transactional_id=None, acks=-1, timeout=timedelta(seconds=60),
        topic_data=[{"name": topic, "partition_data": rows}],
    )  # fmt: skip


def fetch(
    address: str, topic: str, partitions: int = 1, *, offset: int = 0, partition_max: int = MIB, **values: Any
) -> list[Any]:
    row = {
        "current_leader_epoch": -1, "fetch_offset": offset, "last_fetched_epoch": -1, "log_start_offset": -1,
        "partition_max_bytes": partition_max,
    }  # fmt: skip
    given: dict[str, Any] = {
        "replica_id": -1, "max_wait": timedelta(0), "min_bytes": 1, "max_bytes": MIB, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": "",
        "topics": [{"topic": topic, "partitions": [{"partition": n, **row} for n in range(partitions)]}],
    }  # fmt: skip
    return list(ask(address, FETCH, 12, **given | values).responses[0].partitions)


def whole_batches(row: Any) -> int:
    return len(list(iterate_batches(row.records or b"")))


def test_no_partitions_records_begin_with_part_of_a_batch(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=3)
    for partition in range(3):
        produce(address, topic, partition, a_batch(5000))

    first, *others = fetch(address, topic, 3, partition_max=1000)

    assert whole_batches(first) == 1, "the first partition gives one batch, however large"
    assert [len(row.records or b"") for row in others] == [0, 0], "Java's consumer gives up on half a batch"


def test_the_limit_of_the_whole_answer_cuts_at_no_first_batch(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    for partition in range(2):
        produce(address, topic, partition, a_batch(5000))

    rows = fetch(address, topic, 2, max_bytes=6000)

    assert [whole_batches(row) for row in rows] == [1, 0]
    assert len(rows[1].records or b"") == 0


def test_a_wait_for_min_bytes_ends_with_the_batch_that_reaches_it(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    data = a_batch(3000)
    timer = threading.Timer(0.2, produce, (address, topic, 0, data))
    timer.start()

    (row,) = fetch(address, topic, max_wait=timedelta(milliseconds=NEVER_MS), min_bytes=len(data))

    timer.join()
    assert whole_batches(row) == 1


@pytest.mark.parametrize("stranger", [7, 1])
def test_nobody_reads_as_a_replica_who_is_not_one(address: str, new_topic: Callable[..., str], stranger: int) -> None:
    topic = new_topic()
    produce(address, topic, 0, a_batch())

    (row,) = fetch(address, topic, replica_id=stranger)

    assert row.error_code is ErrorCode.not_leader_or_follower
    assert not row.records


def test_offsets_out_of_range_are_told_without_watermarks_as_kafka_does(
    address: str, new_topic: Callable[..., str]
) -> None:
    (row,) = fetch(address, new_topic(), offset=5)

    assert row.error_code is ErrorCode.offset_out_of_range
    assert (row.high_watermark, row.last_stable_offset, row.log_start_offset) == (-1, -1, -1)


def test_a_fetch_that_had_to_wait_for_the_disk_leaves_the_waiting_room(
    node: RunningNode, address: str, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    produce(address, topic, 0, a_batch())
    find, misses = Segment.find, [2]

    def find_cold(self: Segment, offset: int) -> Any:
        if misses[0]:
            misses[0] -= 1
            raise NotInMemory(self.file_for(), 61, 0)
        return find(self, offset)

    monkeypatch.setattr(Segment, "find", find_cold)

    (row,) = fetch(address, topic, max_wait=timedelta(seconds=30))

    assert whole_batches(row) == 1
    assert misses == [0]
    assert node.on_loop(lambda: len(node.node.waiting)) == 0


@pytest.mark.parametrize("level", [-1, 2])
def test_an_isolation_level_that_does_not_exist_refuses_every_partition(
    address: str, new_topic: Callable[..., str], level: int
) -> None:
    rows = fetch(address, new_topic(partitions=2), 2, isolation_level=level)

    assert [row.error_code for row in rows] == [ErrorCode.unknown_server_error] * 2


def test_negative_limits_refuse_where_there_is_something_to_read(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    produce(address, topic, 0, a_batch())

    def code(**limits: int) -> ErrorCode:
        (row,) = fetch(address, topic, **limits)
        found: ErrorCode = row.error_code
        return found

    assert code(max_bytes=-1) is code(partition_max=-1) is ErrorCode.unknown_server_error
    assert code(max_bytes=-1, offset=1) is ErrorCode.none
    assert code(max_bytes=-1, offset=2) is ErrorCode.offset_out_of_range


@pytest.mark.parametrize(("session_id", "is_refused"), [(-(2**31), True), (2**31 - 1, True), (-5, False), (7, False)])
def test_an_id_that_no_session_can_have_refuses_the_request(
    address: str, new_topic: Callable[..., str], session_id: int, is_refused: bool
) -> None:
    (row,) = fetch(address, new_topic(), session_id=session_id)

    assert row.error_code is (ErrorCode.unknown_server_error if is_refused else ErrorCode.none)


def test_what_was_there_and_could_not_be_read_yet_counts_for_min_bytes(
    address: str, new_topic: Callable[..., str]
) -> None:
    """A transaction's records come to be readable with a marker that is much smaller than they are."""
    topic = new_topic()
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"v" * 5000, partition=0)
    assert producer.flush(60) == 0
    timer = threading.Timer(0.3, producer.commit_transaction)
    timer.start()

    (row,) = fetch(address, topic, max_wait=timedelta(milliseconds=NEVER_MS), min_bytes=3000, isolation_level=1)

    timer.join()
    assert whole_batches(row) == 2, "and the marker"


@pytest.mark.parametrize(
    ("version", "told"), [(4, ErrorCode.not_leader_or_follower), (5, ErrorCode.not_leader_or_follower),
                          (6, ErrorCode.kafka_storage_error), (12, ErrorCode.kafka_storage_error)]
)  # fmt: skip
def test_clients_that_need_not_know_of_offline_log_dirs_are_told_to_look_elsewhere(
    version: int, told: ErrorCode
) -> None:
    key = ("t", 0)
    answer = write_answer(version, 1, ErrorCode.none, 0, [Row(key, Fetched(ErrorCode.kafka_storage_error, aborted=[]))])
    assert isinstance(answer, bytes)
    response = codec.decode_response(FETCH, version, answer[8 + (version >= 12) :])
    assert response.responses[0].partitions[0].error_code is told


def test_one_who_waits_in_an_old_epoch_is_told_so_at_once(
    node: RunningNode, address: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    partition = node.on_loop(lambda: node.node.replicas.by_name[topic, 0])

    def begin_another_epoch() -> None:
        known = partition.leadership
        later = known._replace(leader_epoch=known.leader_epoch + 1, partition_epoch=known.partition_epoch + 1)
        node.on_loop(lambda: partition.lead_or_follow(later))

    timer = threading.Timer(0.3, begin_another_epoch)
    timer.start()
    rows = [{
        "partition": 0, "current_leader_epoch": partition.leader_epoch, "fetch_offset": 0, "last_fetched_epoch": -1,
        "log_start_offset": -1, "partition_max_bytes": MIB,
    }]  # fmt: skip

    (row,) = fetch(
        address, topic, max_wait=timedelta(milliseconds=NEVER_MS), min_bytes=1000,
        topics=[{"topic": topic, "partitions": rows}],
    )  # fmt: skip

    timer.join()
    assert row.error_code is ErrorCode.fenced_leader_epoch
