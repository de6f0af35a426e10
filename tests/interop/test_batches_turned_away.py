"""An idempotent producer whose acknowledgement was lost, and of whose batches some are turned away for a moment."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis.asking import create, topic_to_create
from tests.waiting import PATIENCE_S

from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.record.batch import parse_header
from ottla.record.reader import iterate_batches, read_records
from ottla.replica.partition import Appended, Partition
from ottla.testing.node import RunningNode, running_node

RECORDS = 20


class Moment:
    """The first batch is appended, but nobody hears of it. It and the next one come again when too few replicas are in
    sync; when the one after those comes, there are enough."""

    def __init__(self, running: RunningNode, partition: Partition) -> None:
        self.told: list[tuple[int, ErrorCode]] = []
        self._running = running
        self._partition = partition
        self._append = partition.append
        self._is_lost = False
        partition.append = self.append  # type: ignore[assignment,method-assign]

    def append(self, records: Any, *how: Any) -> Appended | asyncio.Future[Appended]:
        sequence = parse_header(records).base_sequence
        if sequence == 0 and not self._is_lost:
            self._is_lost = True
            result = self._append(records, *how)
            for connection in list(self._running.node.listening.connections.connections):
                connection.abort()
            return result
        is_over = any(known >= 2 for known, _ in self.told)
        self._partition._min_isr = 2 if sequence < 2 and not is_over else 1
        result = self._append(records, *how)
        assert isinstance(result, Appended)
        self.told.append((sequence, result.code))
        return result


@pytest.fixture
def moment(tmp_path: Path) -> Any:
    with running_node(tmp_path) as running:
        create(running.address, topic_to_create("orders"))
        partition = running.on_loop(lambda: running.node.replicas.by_name[TopicPartition("orders", 0)])
        yield running, running.on_loop(lambda: Moment(running, partition)), partition


def test_nothing_is_appended_twice(moment: tuple[RunningNode, Moment, Partition]) -> None:
    """librdkafka would number its batches anew if it were told of a gap (OUT_OF_ORDER_SEQUENCE_NUMBER)."""
    from confluent_kafka import Producer

    running, story, partition = moment
    producer = Producer(
        {"bootstrap.servers": running.address, "enable.idempotence": True, "batch.num.messages": 1, "linger.ms": 50,
         "retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50, "log_level": 2}
    )  # fmt: skip
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0

    path = next(Path(partition.log.folder).glob("*.log"))
    values = [record.value for _, batch in iterate_batches(path.read_bytes()) for record in read_records(batch)]
    assert values == [b"%d" % number for number in range(RECORDS)]
    turned_away = [code for sequence, code in story.told if sequence == 2]
    assert turned_away[0] is ErrorCode.not_enough_replicas and turned_away[-1] is ErrorCode.none
