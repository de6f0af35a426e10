"""A compacted topic with three replicas: each node cleans its own, and no reader is disturbed by any of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import confluent_kafka.admin
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.cluster.clients import QUIET, a_name, admin, create_topic, isr_is_full, leaders
from tests.waiting import PATIENCE_S, until

from ottla.log.paths import CLEANER_CHECKPOINT
from ottla.record.reader import iterate_batches, read_records
from ottla.testing.process_cluster import ProcessCluster

Table = dict[bytes, bytes]
KEYS = 60
SEGMENT = 1 << 20


class Reader:
    """Reads at its own pace, notes the newest value of each key, and complains when offsets go back."""

    def __init__(self, cluster: ProcessCluster, topic: str, *, at_once: int) -> None:
        self.table: Table = {}
        self.position = 0
        self.complaints: list[str] = []
        self._at_once = at_once
        self._ends = threading.Event()
        settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap, "group.id": a_name("reader"), **QUIET}
        self._consumer = Consumer(settings | {"enable.auto.commit": False, "fetch.message.max.bytes": 100_000})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            for message in self._consumer.consume(self._at_once, 0.1):
                if message.error() is not None:
                    self.complaints.append(str(message.error()))
                elif (offset := message.offset() or 0) < self.position:
                    self.complaints.append(f"{offset} came after {self.position - 1}")
                else:
                    self.position = offset + 1
                    self._note(message.key() or b"", message.value())

    def _note(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.table.pop(key, None)
        else:
            self.table[key] = value

    def finish(self, end: int) -> Table:
        until(lambda: self.position >= end, lambda: f"read up to {self.position} of {end}")
        self._ends.set()
        self._thread.join()
        self._consumer.close()
        assert not self.complaints, self.complaints[:3]
        return self.table


def write(cluster: ProcessCluster, topic: str, table: Table, random: Random, count: int) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "batch.size": 20_000} | QUIET
    )
    for _ in range(count):
        key = b"key-%d" % random.randrange(KEYS)
        value = None if random.random() < 0.05 else random.randbytes(1000)
        producer.produce(topic, value, key)
        producer.poll(0)
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value
    assert producer.flush(PATIENCE_S) == 0


def set_config(cluster: ProcessCluster, topic: str, name: str, value: str) -> None:
    kit: Any = confluent_kafka.admin
    entry = kit.ConfigEntry(name, value, incremental_operation=kit.AlterConfigOpType.SET)
    resource = kit.ConfigResource(kit.ResourceType.TOPIC, topic, incremental_configs=[entry])
    client = admin(cluster.bootstrap)
    for done in client.incremental_alter_configs([resource]).values():
        done.result(PATIENCE_S)


def cleaned_up_to(cluster: ProcessCluster, node: int, topic: str) -> int:
    path = cluster.data(node) / CLEANER_CHECKPOINT
    rows = [line.split() for line in (path.read_text().splitlines() if path.exists() else ())]
    return next((int(row[2]) for row in rows if row[:1] == [topic]), 0)


def size_of(folder: Path) -> int:
    total = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".log"):
                total += entry.stat().st_size
    return total


def stored(folder: Path) -> Iterator[tuple[bytes, bytes | None]]:
    for path in sorted(folder.glob("*.log")):
        for header, batch in iterate_batches(path.read_bytes()):
            if not header.is_control:
                for record in read_records(batch):
                    yield record.key or b"", record.value


def table_of(folder: Path) -> Table:
    newest = dict(stored(folder))
    return {key: value for key, value in newest.items() if value is not None}


def test_every_replica_is_cleaned_and_readers_notice_nothing(whole: ProcessCluster) -> None:
    # given a compacted topic that nobody cleans yet, and two readers in the middle of it
    random, table = Random(5), Table()
    topic = create_topic(
        whole, 1, cleanup_policy="compact", segment_bytes=str(SEGMENT), min_cleanable_dirty_ratio="1.0",
        file_delete_delay_ms="100",
    )  # fmt: skip
    write(whole, topic, table, random, 4000)
    readers = [Reader(whole, topic, at_once=5), Reader(whole, topic, at_once=500)]
    folders = {node: whole.data(node) / f"{topic}-0" for node in whole.ids}
    before = {node: size_of(folder) for node, folder in folders.items()}

    # when all replicas are cleaned while it is written to
    set_config(whole, topic, "min.cleanable.dirty.ratio", "0.01")
    write(whole, topic, table, random, 4000)
    set_config(whole, topic, "min.cleanable.dirty.ratio", "0.02")  # any change wakes the cleaners
    until(lambda: all(cleaned_up_to(whole, node, topic) > 4000 for node in whole.ids))
    until(lambda: all(size_of(folders[node]) < before[node] for node in whole.ids))

    # then readers have the same table, and one that begins now too
    end = Consumer({"bootstrap.servers": whole.bootstrap, "group.id": "x", **QUIET}).get_watermark_offsets(
        TopicPartition(topic, 0), timeout=PATIENCE_S
    )[1]
    readers.append(Reader(whole, topic, at_once=500))
    assert [reader.finish(end) == table for reader in readers] == [True] * 3

    # and so has every replica, whoever leads
    until(lambda: isr_is_full(whole, topic))
    until(lambda: all(table_of(folders[node]) == table for node in whole.ids))
    leader = leaders(whole, topic)[0]
    whole.kill(leader)
    until(lambda: leaders(whole, topic)[:1] not in ([], [leader], [-1]))
    assert Reader(whole, topic, at_once=500).finish(end) == table
