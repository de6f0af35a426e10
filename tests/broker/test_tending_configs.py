"""How often a node tends its logs: each of these configs changes when something is written or deleted."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.broker.apis.asking import PRODUCE, ask, create, topic_to_create

from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import RunningNode, running_node

LONG, SHORT = 600_000, 50
QUIET = {
    "log_flush_offset_checkpoint_interval_ms": LONG,
    "log_flush_start_offset_checkpoint_interval_ms": LONG,
    "replica_high_watermark_checkpoint_interval_ms": LONG,
    "log_retention_check_interval_ms": LONG,
}


def write(running: RunningNode, **configs: str) -> Path:
    given = {name.replace("_", "."): value for name, value in configs.items()}
    create(running.address, topic_to_create("t", configs=given))
    for _ in range(5):
        batch = build_batch([Record(None, b"v" * 100, 1_000)])
        topics = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
        answer = ask(
            running.address, PRODUCE, 9, acks=-1, timeout=timedelta(seconds=5), transactional_id=None, topic_data=topics
        )
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    return Path(running.on_loop(lambda: running.node.replicas.by_name["t", 0].log.folder))


def happens(what: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if what():
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("log_flush_offset_checkpoint_interval_ms", "recovery-point-offset-checkpoint"),
        ("log_flush_start_offset_checkpoint_interval_ms", "log-start-offset-checkpoint"),
        ("replica_high_watermark_checkpoint_interval_ms", "replication-offset-checkpoint"),
    ],
)
def test_checkpoints(tmp_path: Path, name: str, file: str) -> None:
    for value in (LONG, SHORT):
        folder = tmp_path / str(value)
        with running_node(folder, **QUIET | {name: value}) as running:
            write(running)
            assert happens((folder / file).exists, 10 if value == SHORT else 0.3) is (value == SHORT)


def test_retention_is_looked_at_at_its_interval_and_after_a_first_delay(tmp_path: Path) -> None:
    """The records are of 1970."""
    for number, (interval, delay, goes) in enumerate([(SHORT, LONG, True), (LONG, SHORT, True), (LONG, LONG, False)]):
        settings = {"log_retention_check_interval_ms": interval, "log_initial_task_delay_ms": delay}
        with running_node(tmp_path / str(number), **QUIET | settings) as running:
            folder = write(running, internal_segment_bytes="200", file_delete_delay_ms="0", retention_ms="1000")
            assert happens(lambda folder=folder: len(list(folder.glob("*.log"))) == 1, 10 if goes else 0.3) is goes  # type: ignore[misc]


@pytest.mark.parametrize(("delay", "stays"), [("0", False), (str(LONG), True)])
def test_files_stay_for_a_while_after_their_segment(tmp_path: Path, delay: str, stays: bool) -> None:
    settings = {"log_retention_check_interval_ms": SHORT, "log_segment_delete_delay_ms": int(delay)}
    with running_node(tmp_path, **QUIET | settings) as running:
        folder = write(running, internal_segment_bytes="200", retention_ms="1000")
        assert happens(lambda: len(list(folder.glob("*.log"))) == 1, 10)
        assert happens(lambda: not list(folder.glob("*.deleted")), 0.3 if stays else 10) is not stays
