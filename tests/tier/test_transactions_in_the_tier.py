"""Readers of what is committed read it from the tier as from the disk."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from tests.tier.tiered import TOPIC, consume, create, partition, tiered_node
from tests.waiting import until


def test_aborted_records_are_left_out(tmp_path: Path) -> None:
    with tiered_node(tmp_path) as running:
        create(running.address)
        expected: list[int] = []
        number = 0
        aborting = Producer({"bootstrap.servers": running.address, "transactional.id": "a", "linger.ms": 0})
        committing = Producer({"bootstrap.servers": running.address, "transactional.id": "c", "linger.ms": 0})
        for producer in (aborting, committing):
            producer.init_transactions(30)
        for turn in range(2):
            aborting.begin_transaction()  # over several segments, with those of the other in between
            for _ in range(4):
                aborting.produce(TOPIC, b"%d" % number + b"." * 200, partition=0)
                aborting.flush()
                number += 1
                committing.begin_transaction()
                committing.produce(TOPIC, b"%d" % number + b"." * 200, partition=0)
                expected.append(number)
                number += 1
                committing.commit_transaction(30)
            if turn % 2:
                aborting.commit_transaction(30)
                expected += range(number - 8, number, 2)
            else:
                aborting.abort_transaction(30)
        log = partition(running).log
        end = log.end_offset
        until(lambda: log.local_start_offset >= end, lambda: f"{log.local_start_offset} of {end}")
        got = consume(running.address, 0, end, **{"isolation.level": "read_committed"})
        assert sorted(got) == sorted(expected)
        every = consume(running.address, 0, end, **{"isolation.level": "read_uncommitted"})
        assert sorted(every) == list(range(number))
