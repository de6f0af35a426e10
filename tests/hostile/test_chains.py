"""Requests of which each is what another connection waits for: answered in a row, not one within the other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.broker.apis.asking import create, topic_to_create
from tests.interop.raw import FETCH, PRODUCE, Raw, fetch_values, frame
from tests.waiting import NEVER_MS, until

from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import running_node

LENGTH = 300


def test_two_clients_that_wait_for_each_other(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        for topic in ("ping", "pong"):
            create(node.address, topic_to_create(topic))
        with Raw(node.port) as one, Raw(node.port) as other:
            other.send(b"".join(_fetch("ping", n) + _produce("pong") for n in range(LENGTH)))
            until(lambda: node.on_loop(lambda: len(node.node.waiting)))
            one.send(b"".join(_produce("ping") + _fetch("pong", n) for n in range(LENGTH)))
            for raw in (one, other):
                for _ in range(2 * LENGTH):
                    raw.receive_frame()
        partitions = node.on_loop(lambda: [node.node.replicas.by_name[topic, 0] for topic in ("ping", "pong")])
        assert [partition.log.end_offset for partition in partitions] == [LENGTH, LENGTH]


def _produce(topic: str) -> bytes:
    batch = build_batch([Record(None, b"v", 1_700_000_000_000)])
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    return frame(PRODUCE, 9, acks=1, timeout=timedelta(seconds=60), transactional_id=None, topic_data=topics)


def _fetch(topic: str, offset: int) -> bytes:
    return frame(FETCH, 4, **fetch_values({(topic, 0): offset}, max_wait_ms=NEVER_MS))
