"""A topic with thousands of partitions: what concerns them all lets others have their turn."""

from __future__ import annotations

import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis.altering import TOPIC, set_config
from tests.broker.apis.asking import create, topic_to_create
from tests.interop.raw import API_VERSIONS, PRODUCE, Raw, produce_values
from tests.waiting import at_best, until

from ottla.log.log_dir import LogDir
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.model.names import TopicPartition
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.replica.partition import Partition
from ottla.testing.node import RunningNode, running_node

_numbers = count(5)


def test_a_config_of_many_partitions_is_changed_bit_by_bit(tmp_path: Path) -> None:
    configured = Partition.configure
    with running_node(tmp_path) as node:
        create(node.address, topic_to_create("many", 500))
        node.wait_for(node.node.replicas._tasks.settle())

        def slowly(partition: Partition, config: object) -> None:
            time.sleep(0.002)  # all of them: a second
            configured(partition, config)  # type: ignore[arg-type]

        Partition.configure = slowly  # type: ignore[method-assign, assignment]
        try:
            assert at_best(lambda: longest_wait_while_configured(node), below=0.5) < 0.5
        finally:
            Partition.configure = configured  # type: ignore[method-assign]


def longest_wait_while_configured(node: RunningNode) -> float:
    value = str(next(_numbers))
    changing = threading.Thread(target=set_config, args=(node.address, TOPIC, "many"), kwargs={"retention_ms": value})
    slowest = 0.0
    with Raw(node.port) as raw:
        changing.start()
        while changing.is_alive():
            began = time.monotonic()
            raw.ask(API_VERSIONS, 0)
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.005)
    found = node.on_loop(lambda: {each.log.config.retention_ms for each in node.node.replicas.by_id.values()})
    assert found == {int(value)}
    return slowest


def test_partitions_that_come_while_others_are_made_are_made_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = LogManager.get_or_create

    def slowly(logs: LogManager, *args: Any) -> PartitionLog:
        time.sleep(0.002)
        return make(logs, *args)

    def made(topic: str) -> int:
        return len(list(tmp_path.glob(f"{topic}-*/partition.metadata")))

    with running_node(tmp_path) as node:
        monkeypatch.setattr(LogManager, "get_or_create", slowly)
        create(node.address, topic_to_create("first", 400))
        until(lambda: made("first") > 50)
        create(node.address, topic_to_create("second", 100))
        assert made("first") < 400, "the second topic came too late to show anything"
        until(lambda: made("first") == 400 and made("second") == 100)


def test_high_watermarks_are_not_looked_at_while_they_rest(tmp_path: Path) -> None:
    with running_node(tmp_path, replica_high_watermark_checkpoint_interval_ms=20) as node:
        create(node.address, topic_to_create("t"))
        logs, looked = node.node.logs, 0
        look = logs._high_watermarks_of

        def counting(log_dir: LogDir) -> dict[TopicPartition, int]:
            nonlocal looked
            looked += 1
            return look(log_dir)

        checkpoint = tmp_path / "replication-offset-checkpoint"
        until(lambda: checkpoint.exists() and "t 0 0" in checkpoint.read_text())
        logs._high_watermarks_of = counting  # type: ignore[method-assign]
        time.sleep(0.3)
        assert looked == 0
        batch = build_batch([Record(None, b"x", 1_700_000_000_000)])
        with Raw(node.port) as raw:
            raw.ask(PRODUCE, 9, **produce_values("t", batch))
        until(lambda: "t 0 1" in checkpoint.read_text())
        assert looked > 0
