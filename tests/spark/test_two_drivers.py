"""The same query is started twice, on two drivers that both live: one is kept out, and every record is written once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from tests.spark.topics import committed, new_topic, write
from tests.waiting import until

from ottla.testing.node import RunningNode

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 200.0
KEPT_OUT = (
    "another driver writes under the transactional id",
    "CONCURRENT_STREAM_LOG_UPDATE",  # Spark itself, when both write down what a batch is to read
    "Multiple streaming queries are concurrently using",
)


class Driver:
    def __init__(self, node: RunningNode, source: str, target: str, folder: Path, number: int, writes: str) -> None:
        self.output = folder / f"driver-{number}.out"
        command = [sys.executable, str(ROOT / "tests/spark/copying_driver.py"), node.address, source, target]
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, str(folder), writes],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": path},
            )

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        if not self.has_ended:
            for process in psutil.Process(self.process.pid).children(recursive=True):
                process.kill()
        self.process.kill()
        self.process.wait()

    def told(self) -> str:
        return self.output.read_text(errors="replace")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("writes", ["driver", "executors"])
def test_of_two_live_drivers_one_is_kept_out(node: RunningNode, tmp_path: Path, writes: str) -> None:
    source, target = new_topic(node, 2), new_topic(node, 2)
    written: list[bytes] = []
    ended = threading.Event()

    def keep_writing() -> None:
        while not ended.wait(0.05):
            values = [b"%06d" % n for n in range(len(written), len(written) + 20)]
            write(node, source, values, len(written) // 20 % 2)
            written.extend(values)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    drivers = [Driver(node, source, target, tmp_path, number, writes) for number in range(2)]
    try:
        until(lambda: any(one.has_ended for one in drivers), lambda: drivers[0].told()[-2000:], within_s=WITHIN_S)
        loser, winner = sorted(drivers, key=lambda one: not one.has_ended)
        assert any(words in loser.told() for words in KEPT_OUT), loser.told()[-3000:]
        ended.set()
        writer.join()
        until(lambda: len(committed(node, target)) >= len(written), lambda: winner.told()[-2000:], within_s=WITHIN_S)
        assert not winner.has_ended
        assert sorted(committed(node, target)) == written
    finally:
        ended.set()
        writer.join()
        for one in drivers:
            one.kill()
