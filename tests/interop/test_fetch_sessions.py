"""Incremental fetch sessions (KIP-227), asked by hand and used by kafka-python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.clients import Confluent, Sent
from tests.interop.conftest import NewTopic, create_topic
from tests.interop.raw import FETCH, Raw, fetch_values
from tests.waiting import attempts

from ottla.model.errors import ErrorCode
from ottla.testing.process import NodeProcess, running_process

VERSION = 12


def fetch(raw: Raw, offsets: dict[tuple[str, int], int], **more: Any) -> Any:
    return raw.ask(FETCH, VERSION, **fetch_values(offsets, **more))


def said(answer: Any) -> dict[int, int]:
    """Partition -> bytes of records, for those that the answer mentions."""
    return {row.partition_index: len(row.records or b"") for topic in answer.responses for row in topic.partitions}


def write(node: NodeProcess, topic: str, *partitions: int) -> None:
    Confluent().produce(node.address, topic, [Sent(None, b"x" * 100, partition=number) for number in partitions])


def test_a_session_tells_only_news(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4)
    write(node, topic, 0, 1, 2, 3)
    with Raw(node.port) as raw:
        # given a full fetch that opens a session
        opened = fetch(raw, {(topic, n): 0 for n in range(4)}, session=(0, 0))
        session = opened.session_id
        assert session > 0 and said(opened).keys() == {0, 1, 2, 3}
        # when the client has read all, nothing is said
        moved = fetch(raw, {(topic, n): 1 for n in range(4)}, session=(session, 1))
        assert moved.session_id == session and said(moved) == {}
        # when there is something new, only that is said, though the request names no partition
        write(node, topic, 2)
        news = said(fetch(raw, {}, session=(session, 2)))
        assert news.keys() == {2} and news[2] > 100
        # it is given again until the client moves on
        assert said(fetch(raw, {}, session=(session, 3))).keys() == {2}
        # a partition that is forgotten is not mentioned any more
        write(node, topic, 0, 1)
        left = fetch(raw, {(topic, 2): 2}, session=(session, 4), forgotten=((topic, 0),))
        assert said(left).keys() == {1}
        # one that is added is answered in full
        assert said(fetch(raw, {(topic, 0): 0, (topic, 1): 2}, session=(session, 5))).keys() == {0}
        # and a final request ends the session
        ended = fetch(raw, {(topic, 3): 0}, session=(session, -1))
        assert ended.session_id == 0 and said(ended).keys() == {3}
        gone = fetch(raw, {}, session=(session, 6))
        assert gone.error_code == ErrorCode.fetch_session_id_not_found


def test_a_wrong_epoch_and_an_unknown_session_are_told_apart(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Raw(node.port) as raw:
        session = fetch(raw, {(topic, 0): 0}, session=(0, 0)).session_id
        assert fetch(raw, {}, session=(session, 3)).error_code == ErrorCode.invalid_fetch_session_epoch
        assert fetch(raw, {}, session=(session, 1)).error_code == ErrorCode.none
        assert fetch(raw, {}, session=(session, 1)).error_code == ErrorCode.invalid_fetch_session_epoch
        unknown = session - 1 if session > 1 else 2
        assert fetch(raw, {}, session=(unknown, 1)).error_code == ErrorCode.fetch_session_id_not_found


def test_a_busy_partition_does_not_starve_the_others(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    write(node, topic, *([0] * 50 + [1] * 50 + [2] * 50))
    with Raw(node.port) as raw:
        first = fetch(raw, {(topic, n): 0 for n in range(3)}, session=(0, 0), max_bytes=1)
        served = [max(said(first), key=lambda n: said(first)[n])]
        for epoch in range(1, 3):
            answer = fetch(raw, {}, session=(first.session_id, epoch), max_bytes=1)
            served.append(max(said(answer), key=lambda n: said(answer)[n]))
        assert sorted(served) == [0, 1, 2]


def test_a_full_cache_gives_no_session_and_clients_get_their_records_all_the_same(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with running_process(tmp_path_factory.mktemp("sessions"), max_incremental_fetch_session_cache_slots=1) as node:
        topic = create_topic(node.address, "few-slots", 3)
        write(node, topic, 0, 1, 2)
        with Raw(node.port) as one, Raw(node.port) as other:
            offsets = {(topic, n): 0 for n in range(3)}
            assert fetch(one, offsets, session=(0, 0)).session_id > 0
            answer = fetch(other, offsets, session=(0, 0))
            assert answer.session_id == 0 and said(answer).keys() == {0, 1, 2}
        consumers = [kafka_python_consumer(node, topic, [0, 1, 2]) for _ in range(3)]
        seen: list[list[int]] = [[], [], []]
        for wanted in (1, 2, 3):
            if wanted > 1:
                write(node, topic, 0, 1, 2)
            for consumer, partitions in zip(consumers, seen, strict=True):
                poll_until(consumer, partitions, lambda p=partitions, w=wanted: len(p) == 3 * w)  # type: ignore[misc]
        assert all(sorted(partitions) == [0] * 3 + [1] * 3 + [2] * 3 for partitions in seen)
        for consumer in consumers:
            consumer.close()


def test_kafka_python_follows_its_assignment_through_one_session(node: NodeProcess, new_topic: NewTopic) -> None:
    from kafka import TopicPartition

    topic = new_topic(partitions=6)
    consumer = kafka_python_consumer(node, topic, [0, 1, 2, 3])
    seen: list[int] = []
    write(node, topic, 0, 1, 2, 3, 4, 5)
    poll_until(consumer, seen, lambda: sorted(seen) == [0, 1, 2, 3])
    # when partitions are dropped and others added
    consumer.assign([TopicPartition(topic, number) for number in (2, 3, 4, 5)])
    for number in (2, 3):
        consumer.seek(TopicPartition(topic, number), 1)
    for number in (4, 5):
        consumer.seek(TopicPartition(topic, number), 0)
    write(node, topic, 0, 1, 2)
    # then only those assigned are read
    poll_until(consumer, seen, lambda: sorted(seen) == [0, 1, 2, 2, 3, 4, 5])
    # and a pause takes a partition out until it is resumed
    consumer.pause(TopicPartition(topic, 4))
    write(node, topic, 4, 5)
    poll_until(consumer, seen, lambda: seen.count(5) == 2)
    assert seen.count(4) == 1
    consumer.resume(TopicPartition(topic, 4))
    poll_until(consumer, seen, lambda: seen.count(4) == 2)
    assert len(seen) == 9
    consumer.close()


def kafka_python_consumer(node: NodeProcess, topic: str, partitions: list[int]) -> Any:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=node.address, group_id=None, fetch_max_wait_ms=100)
    consumer.assign([TopicPartition(topic, number) for number in partitions])
    for number in partitions:
        consumer.seek(TopicPartition(topic, number), 0)
    return consumer


def poll_until(consumer: Any, seen: list[int], done: Callable[[], bool]) -> None:
    for _ in attempts(lambda: f"seen so far: {seen}"):
        if done():
            break
        for messages in consumer.poll(100).values():
            seen.extend(message.partition for message in messages)
