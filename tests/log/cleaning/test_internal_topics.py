"""`__consumer_offsets` stays small: after a cleaning, millions of commits are loaded as fast as their latest."""

from __future__ import annotations

import time
from pathlib import Path
from struct import Struct
from typing import Any

import confluent_kafka.admin
import numpy as np
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from crc32c import crc32c
from tests.waiting import PATIENCE_S, until

from ottla.coordinator.group.offset_records import CommittedOffset, OffsetKey, write_key, write_value
from ottla.log.paths import CLEAN_SHUTDOWN_MARK, CLEANER_CHECKPOINT, LOG_SUFFIX, PARTITION_METADATA, offset_name
from ottla.record.batch import CRC_START
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.process import NodeProcess, running_process

OFFSETS = "__consumer_offsets"
GROUPS, PARTITIONS, A_BATCH = 500, 4, 100
KEYS = GROUPS * PARTITIONS
PLACEHOLDER = 0x0102030405060708
LONG = Struct(">q")
SEGMENT = 100 << 20


def templates() -> list[tuple[Any, Any]]:
    """A commit of every partition of every group, in batches; and where in each batch the offsets stand."""
    now = int(time.time() * 1000)
    value = write_value(CommittedOffset(PLACEHOLDER, 0, "", now))
    made = []
    for first in range(0, KEYS, A_BATCH):
        keys = [
            write_key(OffsetKey(f"group-{n // PARTITIONS}", "t", n % PARTITIONS)) for n in range(first, first + A_BATCH)
        ]
        batch = build_batch([Record(key, value, now) for key in keys])
        places, at = [], -1
        while (at := batch.find(LONG.pack(PLACEHOLDER), at + 1)) >= 0:
            places.append(at)
        made.append((np.frombuffer(batch, dtype=np.uint8), np.array(places)[:, None] + np.arange(8)))
    return made


def fill(folder: Path, commits: int) -> int:
    """Every partition's commit is the offset in the log it stands at. Gives the base offset of the last segment."""
    for path in folder.iterdir():
        if path.name != PARTITION_METADATA:
            path.unlink()
    made, base, size, offset = templates(), 0, 0, 0
    file = (folder / (offset_name(0) + LOG_SUFFIX)).open("wb")
    while offset < commits:
        for template, places in made:
            batch = template.copy()
            numbers = np.arange(offset, offset + A_BATCH, dtype=">i8")
            batch[places] = numbers.view(np.uint8).reshape(A_BATCH, 8)
            batch[:8] = numbers[:1].view(np.uint8)
            batch[CRC_START - 4 : CRC_START] = np.frombuffer(
                crc32c(batch[CRC_START:]).to_bytes(4, "big"), dtype=np.uint8
            )
            if size > min(SEGMENT, commits * 20):
                file.close()
                base, size = offset, 0
                file = (folder / (offset_name(base) + LOG_SUFFIX)).open("wb")
            file.write(batch)
            size, offset = size + batch.size, offset + A_BATCH
    file.close()
    return base


def commit_once(node: NodeProcess) -> None:
    """So that the topic of commits is made."""
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": "first", "log_level": 2})
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.close()


def committed(node: NodeProcess, group: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": f"group-{group}", "log_level": 2})
    found = consumer.committed([TopicPartition("t", n) for n in range(PARTITIONS)], timeout=PATIENCE_S)
    consumer.close()
    return [partition.offset for partition in found]


def clean_soon(admin: AdminClient) -> None:
    kit: Any = confluent_kafka.admin
    entry = kit.ConfigEntry("min.cleanable.dirty.ratio", "0.01", incremental_operation=kit.AlterConfigOpType.SET)
    resource = kit.ConfigResource(kit.ResourceType.TOPIC, OFFSETS, incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(PATIENCE_S)


@pytest.mark.parametrize(
    ("commits", "within_s"),
    [(200_000, 10.0), pytest.param(10_000_000, 10.0, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
    ids=["200 thousand", "10 million"],
)
def test_commits_are_loaded_in_seconds_once_they_are_cleaned(tmp_path: Path, commits: int, within_s: float) -> None:
    settings: dict[str, Any] = {"offsets_topic_num_partitions": 1, "log_cleaner_backoff_ms": 100}
    with running_process(tmp_path, **settings) as node:
        # given a log of commits that was never cleaned
        admin = AdminClient({"bootstrap.servers": node.address})
        admin.create_topics([NewTopic("t", PARTITIONS)])["t"].result(PATIENCE_S)
        commit_once(node)
        clean_soon(admin)
        node.stop()
        folder = node.data / f"{OFFSETS}-0"
        base = fill(folder, commits)
        (node.data / CLEAN_SHUTDOWN_MARK).unlink(missing_ok=True)
        before = sum(path.stat().st_size for path in folder.glob("*.log"))

        # when it is cleaned
        node.start(within=300)
        checkpoint = node.data / CLEANER_CHECKPOINT
        until(
            lambda: checkpoint.exists() and f"{OFFSETS} 0 {base}" in checkpoint.read_text(),
            lambda: node.log()[-2000:], within_s=500,
        )  # fmt: skip
        node.stop(within=300)
        after = sum(path.stat().st_size for path in folder.glob("*.log"))
        assert after < before / 3, (before, after)

        # then a start has the latest commits within seconds
        began = time.monotonic()
        node.start()
        last_round = commits - KEYS
        for group in (0, 17, GROUPS - 1):
            first = last_round + group * PARTITIONS
            assert committed(node, group) == list(range(first, first + PARTITIONS))
        took = time.monotonic() - began
        assert took < within_s
