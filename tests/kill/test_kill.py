"""Real kills under load: kill -9 of the node's process, in the middle of rolls, index writes and checkpoints.

kill -9 does not lose the page cache; what a loss of power may take is the simulation's business.
"""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import psutil
import pytest
from tests.interop.conftest import create_topic
from tests.kill.load import (
    Reader,
    Writer,
    check_files,
    check_nothing_acknowledged_is_missing,
    check_order,
)

from ottla.testing import apache_kafka
from ottla.testing.process import NodeProcess, running_process

PARTITIONS = 3
RATE = 4_000  # of each of three writers
SMALL_SEGMENTS = {"internal_segment_bytes": 48_000, "index_interval_bytes": 300, "segment_index_bytes": 1600}
# Recovery points move all the time, so that recovery begins in the middle of logs.
EAGER = {
    "log_retention_check_interval_ms": 200, "log_initial_task_delay_ms": 100,
    "log_flush_offset_checkpoint_interval_ms": 150, "replica_high_watermark_checkpoint_interval_ms": 100,
    "log_flush_start_offset_checkpoint_interval_ms": 150,
}  # fmt: skip
# Topic, idempotence, codec, configs. What is written to `short` goes soon: its old segments are deleted all the time.
LOADS: tuple[tuple[str, bool, str, dict[str, str | int]], ...] = (
    ("once", True, "none", {}),
    ("plain", False, "lz4", {}),
    ("short", True, "none", {"retention_bytes": 300_000, "file_delete_delay_ms": 100}),
)


def test_a_few_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=5, seed=7, rate=RATE // 3)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_hundred_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, kills=100, seed=int(time.time()))


def kill_again_and_again(folder: Path, kills: int, seed: int, rate: int = RATE) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    with running_process(folder, **EAGER) as node:
        writers = []
        for topic, idempotent, codec, configs in LOADS:
            create_topic(node.address, topic, PARTITIONS, **SMALL_SEGMENTS, **configs)
            writers.append(Writer(node.address, topic, PARTITIONS, rate, idempotent=idempotent, codec=codec))
        readers = [Reader(node.port, writer.topic, PARTITIONS) for writer in writers]
        for writer in writers:
            writer.start()
        for number in range(kills):
            time.sleep(dice.uniform(0.05, 0.6))
            node.kill()
            acknowledged = [dict(writer.acknowledged) for writer in writers]
            if number % 10 == 9:  # now and then also while it is recovering
                node.begin_start()
                time.sleep(dice.uniform(0.15, 0.35))
                node.kill()
            node.start()
            for reader, known in zip(readers, acknowledged, strict=True):
                reader.catch_up()
                check_nothing_acknowledged_is_missing(reader, known)
        for writer in writers:
            writer.finish()
        for reader, writer in zip(readers, writers, strict=True):
            assert not writer.failed, writer.failed[:3]
            reader.catch_up()
            check_nothing_acknowledged_is_missing(reader, writer.acknowledged)
            if writer.topic != "short":
                check_order(reader, writer.produced, once=writer.topic == "once")
            assert sum(writer.produced) > kills * 500  # there was a load at all
        check_log(node)
        # and once more from the disk, with nothing in memory
        fresh = [Reader(node.port, writer.topic, PARTITIONS) for writer in writers]
        node.stop()
        ends = check_files(node.data)
        assert len(list(node.data.glob("once-0/*.log"))) > kills // 4  # rolls were hit
        node.start()
        for reader, seen in zip(fresh, readers, strict=True):
            reader.catch_up()
            for partition in range(PARTITIONS):
                cut = reader.starts[partition] - seen.starts[partition]
                assert reader.numbers[partition] == seen.numbers[partition][cut:]
        for writer, reader in zip(writers, fresh, strict=True):
            for partition in range(PARTITIONS):
                assert ends[f"{writer.topic}-{partition}"] == reader.starts[partition] + len(reader.numbers[partition])
        segments = len(list(node.data.glob("*/*.log")))
        assert psutil.Process(node.pid).num_fds() < 3 * segments + 100


def check_log(node: NodeProcess) -> None:
    log = node.log()
    assert "Traceback" not in log, log[-6000:]
    assert " ERROR " not in log, log[-6000:]


@pytest.mark.kafka
@pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars")
def test_apache_kafka_reads_what_kills_left_behind(tmp_path: Path) -> None:
    """Right after a kill only what was recovered before is in order: so once more after a start and a clean stop."""
    with running_process(tmp_path, **EAGER) as node:
        create_topic(node.address, "once", 1, **SMALL_SEGMENTS)
        writer = Writer(node.address, "once", 1, RATE, idempotent=True, codec="none")
        writer.start()
        for _ in range(4):
            time.sleep(0.5)
            node.kill()
            node.start()
        writer.finish()
        node.stop()
    logs = sorted(node.data.glob("once-0/*.log"))
    indexes = [path.with_suffix(suffix) for path in logs for suffix in (".index", ".timeindex")]
    for files, check_index in ((logs[-40:], False), (indexes[-40:], True)):
        done = apache_kafka.dump_log_segments(*files, index_sanity_check=check_index)
        told = done.stdout + done.stderr
        assert done.returncode == 0, told[-3000:]
        for complaint in ("Exception", "Mismatches", "isvalid: false", "unexpected"):
            assert complaint not in told, told[-3000:]
        # The tool says so of every file that does not begin with offset 0: "-1 is followed by 7732".
        assert not re.search(r"^ *\d+ is followed by", told, re.MULTILINE), told[-3000:]
    assert f"lastOffset: {writer.produced[0] - 1} " in apache_kafka.dump_log_segments(logs[-1]).stdout
