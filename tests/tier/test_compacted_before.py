"""A topic that was compacted once and is tiered now: there are offsets that no record has."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from tests.tier.test_bad_stores import fetch
from tests.tier.test_tiered_topics import configure
from tests.tier.tiered import TOPIC, create, partition, tiered_node
from tests.waiting import until

from ottla.record.reader import iterate_batches, read_records
from ottla.testing.node import RunningNode

KEYS = 4
READ_COMMITTED = 1


def write(running: RunningNode, numbers: range, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": running.address, "linger.ms": 0})
    for number in numbers:
        producer.produce(TOPIC, b"%d" % number + b"." * 90, key or b"%d" % (number % KEYS), partition=0)
        producer.flush()


def following(running: RunningNode, offset: int) -> int:
    """The first record from an offset on, as a consumer finds it."""
    found: list[int] = []

    def has_come() -> bool:
        for _, batch in iterate_batches(fetch(running, offset, READ_COMMITTED).records or b""):
            found.extend(record.offset for record in read_records(batch) if record.offset >= offset)
        return bool(found)

    until(has_come, lambda: f"nothing from {offset} on")
    return found[0]


def cleaned_to(running: RunningNode) -> int | None:
    return running.node.logs.dirs[0].cleaned_offsets.get(partition(running).log.partition)


def left(running: RunningNode, end: int) -> list[int]:
    found, offset = list[int](), 0
    while offset < end:
        found.append(following(running, offset))
        offset = found[-1] + 1
    return found


def test_what_is_left_is_read_from_any_offset(tmp_path: Path) -> None:
    """Also where nothing is left at the end of a segment, in a whole one, and before the disk begins."""
    with tiered_node(tmp_path, log_cleaner_backoff_ms=20, remote_fetch_max_wait_ms=200) as running:
        create(
            running.address, remote_storage_enable="false", cleanup_policy="compact", local_retention_ms="-2",
            min_cleanable_dirty_ratio="0.001", min_compaction_lag_ms="0",
        )  # fmt: skip
        write(running, range(30))
        write(running, range(30, 40), b"kept")
        write(running, range(40, 70))
        log = partition(running).log
        # A slow machine writes while it cleans: half of the bytes may be gone when much is still to be looked at.
        until(lambda: cleaned_to(running) == log.active.base_offset, lambda: f"clean up to {cleaned_to(running)}")
        configure(running.address, cleanup_policy="delete")
        until(lambda: log.config.delete)
        before = left(running, 70)
        assert before[0] > 0 and len(before) < 30 and 39 in before
        configure(running.address, remote_storage_enable="true", local_retention_ms="1")
        until(lambda: log.local_start_offset == 70, lambda: f"local from {log.local_start_offset}")
        write(running, range(70, 71))
        for offset in range(log.start_offset, 71):
            assert following(running, offset) == next(each for each in (*before, 70) if each >= offset)
