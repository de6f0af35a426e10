"""Produce: what refuses a whole request, and that nothing of it has had an effect then."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.broker.apis.asking import PRODUCE, ask, list_offset

from ottla.broker.apis import produce as produce_api
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.record.builder import build_batch
from ottla.record.records import Record


def a_batch(**how: Any) -> bytes:
    return build_batch([Record(b"k", b"v", int(time.time() * 1000))], **how)


def produce(address: str, topic: str, *batches: bytes | None, acks: int = -1, version: int = 9, **values: Any) -> Any:
    rows = [{"index": number, "records": data} for number, data in enumerate(batches)]
    given = {"transactional_id": None, "acks": acks, "timeout": timedelta(seconds=60)}
    answer = ask(address, PRODUCE, version, **given | values, topic_data=[{"name": topic, "partition_data": rows}])
    return list(answer.responses[0].partition_responses)


def codes(rows: list[Any]) -> list[ErrorCode]:
    return [row.error_code for row in rows]


def end_offset(address: str, topic: str, partition: int) -> int:
    offset: int = list_offset(address, topic, -1, partition=partition).offset
    return offset


TRANSACTIONAL = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_transactional_batch_without_transactional_id_refuses_all_before_anything_is_appended(
    address: str, new_topic: Callable[..., str], version: int
) -> None:
    topic = new_topic(partitions=2)

    rows = produce(address, topic, a_batch(), a_batch(**TRANSACTIONAL), version=version)

    assert codes(rows) == [ErrorCode.transactional_id_authorization_failed] * 2
    assert [end_offset(address, topic, partition) for partition in range(2)] == [0, 0]


def test_transactional_batches_of_two_producers_refuse_all(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)
    other = TRANSACTIONAL | {"producer_id": 6}

    rows = produce(address, topic, a_batch(**TRANSACTIONAL), a_batch(**other), transactional_id="mine")

    assert codes(rows) == [ErrorCode.invalid_producer_id_mapping] * 2
    assert [end_offset(address, topic, partition) for partition in range(2)] == [0, 0]


def test_without_a_coordinator_a_producer_is_to_come_again(address: str, new_topic: Callable[..., str]) -> None:
    rows = produce(address, new_topic(), a_batch(**TRANSACTIONAL), transactional_id="mine")

    assert codes(rows) == [ErrorCode.not_enough_replicas]


def test_acks_that_do_not_exist_are_refused_before_anything_is_appended(
    address: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()

    assert codes(produce(address, topic, a_batch(), acks=2)) == [ErrorCode.invalid_required_acks]
    assert end_offset(address, topic, 0) == 0


def test_partitions_of_one_request_succeed_and_fail_each_for_itself(
    address: str, new_topic: Callable[..., str]
) -> None:
    good, damaged = a_batch(), bytearray(a_batch())
    damaged[-1] ^= 1

    rows = produce(address, new_topic(partitions=2), good, bytes(damaged), None)

    assert codes(rows) == [ErrorCode.none, ErrorCode.corrupt_message, ErrorCode.unknown_topic_or_partition]


def test_the_same_idempotent_batch_gets_the_same_offset(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    batches = [a_batch(producer_id=9, producer_epoch=0, base_sequence=sequence) for sequence in range(3)]
    for data in batches:
        produce(address, topic, data)

    (again,) = produce(address, topic, batches[1])
    (gap,) = produce(address, topic, a_batch(producer_id=9, producer_epoch=0, base_sequence=7))

    assert (again.error_code, again.base_offset) == (ErrorCode.none, 1)
    assert gap.error_code is ErrorCode.out_of_order_sequence_number
    assert end_offset(address, topic, 0) == 3


def twice(address: str, topic: str, *batches: bytes) -> Any:
    """One partition, named once for each batch, in topics of their own."""
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]} for batch in batches]
    given = {"transactional_id": None, "acks": -1, "timeout": timedelta(seconds=60), "topic_data": data}
    return ask(address, PRODUCE, 9, **given).responses


def test_of_a_partition_named_twice_the_last_records_count(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    (answered,) = twice(address, topic, a_batch(), build_batch([Record(b"k", b"v", 1), Record(b"k", b"v", 2)]))

    assert codes(answered.partition_responses) == [ErrorCode.none]
    assert end_offset(address, topic, 0) == 2


def test_of_a_partition_named_twice_an_early_fault_counts(address: str, new_topic: Callable[..., str]) -> None:
    (answered,) = twice(address, new_topic(), a_batch()[:-1], a_batch())

    assert codes(answered.partition_responses) == [ErrorCode.invalid_record]


def test_records_that_cannot_be_any_refuse_the_whole_request(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=2)

    rows = produce(address, topic, a_batch(), bytes(20))

    assert codes(rows) == [ErrorCode.corrupt_message] * 2
    assert end_offset(address, topic, 0) == 0


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.invalid_record),
        (a_batch()[:-1], ErrorCode.invalid_record),
        (a_batch() + a_batch(), ErrorCode.invalid_record),
        (a_batch(), ErrorCode.invalid_required_acks),
    ],
    ids=["nothing", "a part", "two", "one"],
)
def test_faults_seen_at_first_sight_are_told_before_wrong_acks(
    address: str, new_topic: Callable[..., str], records: bytes, code: ErrorCode
) -> None:
    assert codes(produce(address, new_topic(), records, a_batch(), acks=2)) == [
        code,
        ErrorCode.unknown_topic_or_partition,
    ]


def test_the_logs_start_is_told_only_where_the_log_was_asked(address: str, new_topic: Callable[..., str]) -> None:
    def start(records: bytes) -> int:
        (row,) = produce(address, new_topic(), records)
        offset: int = row.log_start_offset
        return offset

    assert start(a_batch(base_offset=3)) == 0  # the log found it
    assert start(a_batch()[:-1]) == -1


@pytest.mark.parametrize(
    ("version", "code", "other"),
    [(6, ErrorCode.unknown_server_error, ErrorCode.unknown_server_error), (7, ErrorCode.unknown_server_error, 0)],
)
def test_an_unknown_codec_refuses_the_whole_request_where_zstd_is_not_allowed(
    address: str, new_topic: Callable[..., str], version: int, code: ErrorCode, other: ErrorCode
) -> None:
    from crc32c import crc32c

    unknown = bytearray(a_batch())
    unknown[22] = 5
    unknown[17:21] = crc32c(unknown[21:]).to_bytes(4, "big")

    rows = produce(address, new_topic(partitions=2), bytes(unknown), a_batch(), version=version)

    assert codes(rows) == [code, other]


def test_records_too_far_ahead_are_named(address: str, new_topic: Callable[..., str]) -> None:
    now = int(time.time() * 1000)
    ahead = now + 10 * 3_600_000

    (row,) = produce(address, new_topic(), build_batch([Record(b"k", b"v", at) for at in (now, ahead, now, ahead)]))

    assert row.error_code is ErrorCode.invalid_timestamp
    assert [one.batch_index for one in row.record_errors] == [1, 3]


def test_a_partition_that_leaves_while_a_long_request_is_gone_through_acknowledges_nothing(
    address: str, new_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request for thousands of partitions takes breaths, in which the metadata may take one of them away."""
    topic = new_topic(flush_messages="1")
    plain = produce_api._wait

    def after_a_breath(context: Any, *args: Any) -> Any:
        replicas = context.node.replicas
        replicas._remove(replicas.image.topic(topic).id, TopicPartition(topic, 0))
        return plain(context, *args)

    monkeypatch.setattr(produce_api, "_wait", after_a_breath)

    assert codes(produce(address, topic, a_batch())) == [ErrorCode.not_leader_or_follower]
