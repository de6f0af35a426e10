"""How often a node tends its logs: each of these configs changes when something is written or deleted."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.broker.apis.asking import PRODUCE, ask, create, topic_to_create
from tests.waiting import until

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
            running.address,
            PRODUCE,
            9,
            acks=-1,
            timeout=timedelta(seconds=60),
            transactional_id=None,
            topic_data=topics,
        )
        assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    return Path(running.on_loop(lambda: running.node.replicas.by_name["t", 0].log.folder))


NOT_FOR_S = 0.3
"""How long a test looks that nothing happens which is set to be far away: it passes however slow the machine is."""


def stays(what: Callable[[], bool]) -> bool:
    time.sleep(NOT_FOR_S)
    return what()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("log_flush_offset_checkpoint_interval_ms", "recovery-point-offset-checkpoint"),
        ("log_flush_start_offset_checkpoint_interval_ms", "log-start-offset-checkpoint"),
        ("replica_high_watermark_checkpoint_interval_ms", "replication-offset-checkpoint"),
    ],
)
def test_checkpoints(tmp_path: Path, name: str, file: str) -> None:
    written = tmp_path / file
    with running_node(tmp_path, **QUIET) as running:
        write(running)
        assert stays(lambda: not written.exists())
    written.unlink(missing_ok=True)  # a node that stops writes them all
    with running_node(tmp_path, **QUIET | {name: SHORT}):
        until(written.exists)


def segments(folder: Path) -> int:
    return len(list(folder.glob("*.log")))


@pytest.mark.parametrize(("interval", "delay", "goes"), [(SHORT, LONG, True), (LONG, SHORT, True), (LONG, LONG, False)])
def test_retention_is_looked_at_at_its_interval_and_after_a_first_delay(
    tmp_path: Path, interval: int, delay: int, goes: bool
) -> None:
    """The records are of 1970, and were written before the node started that looks."""
    with running_node(tmp_path, **QUIET, log_initial_task_delay_ms=LONG) as running:
        folder = write(running, internal_segment_bytes="200", file_delete_delay_ms="0", retention_ms="1000")
    assert segments(folder) == 5
    settings = {"log_retention_check_interval_ms": interval, "log_initial_task_delay_ms": delay}
    with running_node(tmp_path, **QUIET | settings):
        if goes:
            until(lambda: segments(folder) == 1)
        else:
            assert stays(lambda: segments(folder) == 5)


@pytest.mark.parametrize(("delay", "is_kept"), [("0", False), (str(LONG), True)])
def test_files_stay_for_a_while_after_their_segment(tmp_path: Path, delay: str, is_kept: bool) -> None:
    settings = {"log_retention_check_interval_ms": SHORT, "log_segment_delete_delay_ms": int(delay)}
    with running_node(tmp_path, **QUIET | settings) as running:
        folder = write(running, internal_segment_bytes="200", retention_ms="1000")
        until(lambda: [file.stem for file in folder.glob("*.log")] == [f"{5:020}"])
        if is_kept:
            assert stays(lambda: len(list(folder.glob("*.log.deleted"))) == 5)
        else:
            until(lambda: not list(folder.glob("*.deleted")))
