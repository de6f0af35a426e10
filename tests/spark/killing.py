"""What is killed at random while a stream runs, and what is written and read meanwhile.

Kills come in rounds, each a cluster and a driver of its own that are looked at in the end: a hundred of them need not
be had at once. OTTLA_KILLS says how many in all, OTTLA_KILLS_FROM which is the first (31 leaves out what was seen
already), OTTLA_KILL_SEED repeats what a round has printed. `-s` shows how far it is.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.waiting import until

from ottla.spark.java import BRIEF
from ottla.testing.process_cluster import ProcessCluster

PARTITIONS = 4
RESTART_WITHIN_S = 480.0
A_ROUND = 10
AT_ONCE = 0.6
ROOT = Path(__file__).resolve().parents[2]


def rounds(few: int, many: int) -> list[Any]:
    """Numbers of kills to parametrize a test with: a few of them, and, among the slow ones, many in rounds."""
    first, most = int(os.environ.get("OTTLA_KILLS_FROM", 1)), int(os.environ.get("OTTLA_KILLS", many))
    slow = [pytest.mark.slow, pytest.mark.timeout(3600)]
    return [
        pytest.param(few, id="some"),
        *(
            pytest.param(min(A_ROUND, most - before), id=f"kills-{before + 1}", marks=slow)
            for before in range(first - 1, most, A_ROUND)
        ),
    ]


def kill_at_random(kinds: Mapping[str, Callable[[random.Random], None]], kills: int, driver: Driver) -> str:
    """Each kind once at least. Some come whenever the driver has got on since the last one, some at once, while the
    last is still being recovered from. Gives the seed, as it is shown."""
    seed = int(os.environ.get("OTTLA_KILL_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    victims = [*kinds, *chance.choices(list(kinds), k=max(kills - len(kinds), 0))]
    chance.shuffle(victims)
    shown = f"OTTLA_KILL_SEED={seed}"
    print(f"{shown}: {dict(Counter(victims))}", flush=True)
    began = time.monotonic()
    since_progress = set(kinds)
    for number, victim in enumerate(victims[:kills]):
        # to kill a driver that has only just been started would show nothing
        at_once = victim not in since_progress and chance.random() < AT_ONCE
        if not at_once:
            wait_for_progress(driver)
            since_progress.clear()
        since_progress.add(victim)
        time.sleep(chance.uniform(0, 3))
        kinds[victim](chance)
        took, when = time.monotonic() - began, "at once" if at_once else "after progress"
        print(f"{number + 1} of {kills} after {took:.0f} s: {victim} {when}, batch {driver.last_commit}", flush=True)
    wait_for_progress(driver)
    return shown


def victims_of(driver: Driver, cluster: ProcessCluster) -> dict[str, Callable[[random.Random], None]]:
    """The driver, a worker, a broker."""

    def worker(chance: random.Random) -> None:
        until(driver.kill_worker, "the driver has no Python process", within_s=RESTART_WITHIN_S)

    def broker(chance: random.Random) -> None:
        node = chance.choice(cluster.ids)
        cluster.kill(node)
        time.sleep(chance.uniform(0, 4))
        cluster.start(node)

    return {"driver": lambda chance: driver.kill(), "worker": worker, "broker": broker}


class Driver:
    """Started again whenever it has died, as a cluster's manager does."""

    def __init__(self, command: Sequence[str], folder: Path, checkpoint: Path) -> None:
        self._command = [sys.executable, *command]
        self._output = folder / "driver.out"
        self._commits = checkpoint / "commits"
        self._stopped = False
        self._lock = threading.Lock()
        self.starts = 0
        self._start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _start(self) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, "PYTHONPATH": path, "JDK_JAVA_OPTIONS": BRIEF},
            )  # fmt: skip
        self.starts += 1

    def _watch(self) -> None:
        while not self._stopped:
            time.sleep(0.2)
            with self._lock:
                if self._process.poll() is not None and not self._stopped:
                    self._start()

    def _tree(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self._process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """All of it at once, Java included, as when its machine goes down."""
        with self._lock:
            for process in self._tree():
                _kill(process)
            self._process.wait()

    def kill_worker(self) -> bool:
        """One of the Python processes of Spark: a task's, or that of the stream's source."""
        workers = [process for process in self._tree()[1:] if _is_python(process)]
        if workers:
            _kill(random.choice(workers))
        return bool(workers)

    def stop(self) -> None:
        self._stopped = True
        self.kill()

    @property
    def last_commit(self) -> int:
        return max((int(file.name) for file in self._commits.glob("[0-9]*")), default=-1)

    def output(self) -> str:
        return self._output.read_text(errors="replace")[-3000:]


def driver_of(cluster: ProcessCluster, folder: Path, writes: str, script: str = "spark/copying_driver") -> Driver:
    command = [str(ROOT / "tests" / f"{script}.py"), cluster.bootstrap, "in", "out", str(folder), writes]
    return Driver(command, folder, folder / "checkpoint")


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        pass


def _is_python(process: psutil.Process) -> bool:
    try:
        return "python" in process.name()
    except psutil.NoSuchProcess:
        return False


def numbered(number: int) -> bytes:
    return b"%08d" % number


@contextmanager
def writing(
    cluster: ProcessCluster, topic: str = "in", value_of: Callable[[int], bytes] = numbered
) -> Iterator[list[bytes]]:
    """Numbered records until it is left; gives those that were acknowledged, which in the end are all."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    written: list[bytes] = []
    ended = threading.Event()

    def write() -> None:
        for number in count():
            if ended.is_set():
                return
            value = value_of(number)
            producer.produce(topic, value, numbered(number), partition=number % PARTITIONS, on_delivery=told)
            producer.poll(0)
            time.sleep(0.005)

    def told(error: KafkaError | None, message: object) -> None:
        assert error is None, error
        written.append(message.value())  # type: ignore[attr-defined]

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield written
    finally:
        ended.set()
        writer.join()
        assert producer.flush(120) == 0


def committed_in(cluster: ProcessCluster, topic: str = "out", partitions: int = PARTITIONS) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: list[bytes] = []
    ends = 0
    while ends < partitions:
        message = consumer.poll(60)
        assert message is not None, "neither a record nor the end came"
        if (error := message.error()) is None:
            found.append(bytes(message.value() or b""))
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ends += 1
    consumer.close()
    return found


def wait_for_progress(driver: Driver) -> None:
    before = driver.last_commit
    until(lambda: driver.last_commit > before, driver.output, within_s=RESTART_WITHIN_S)
