"""A stream is copied over three nodes while its driver, its Python processes and the nodes are killed at random."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.spark.kill_tally import Tally
from tests.waiting import until

from ottla.testing.process_cluster import ProcessCluster, running_processes

PARTITIONS = 4
MANY = int(os.environ.get("OTTLA_KILLS", 50))
RESTART_WITHIN_S = 480.0
ROOT = Path(__file__).resolve().parents[2]


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
                env={**os.environ, "PYTHONPATH": path},
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


@pytest.mark.parametrize(
    ("writes", "kills"),
    [
        ("driver", 5),
        ("executors", 5),
        pytest.param("driver", MANY, marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
        pytest.param("executors", MANY, marks=[pytest.mark.slow, pytest.mark.timeout(3600)]),
    ],
)
@pytest.mark.timeout(900)
def test_every_record_is_copied_exactly_once(tmp_path: Path, writes: str, kills: int) -> None:
    seed = int(os.environ.get("OTTLA_KILL_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    tally = Tally(f"{writes} of {kills}")
    victims = _victims(kills - tally.done, chance)
    if not victims:
        pytest.skip(f"all {kills} kills have been done, as OTTLA_KILLS_TALLY says")
    tally.tell(f"OTTLA_KILL_SEED={seed}: {tally.done} of {kills} are done, now {Counter(victims)}")
    with running_processes(tmp_path, 3, min_insync_replicas=2, transaction_state_log_min_isr=2) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topics = [NewTopic(name, PARTITIONS, 3) for name in ("in", "out")]
        for future in admin.create_topics(topics).values():
            future.result(60)
        driver = driver_of(cluster, tmp_path, writes)
        try:
            with writing(cluster) as written:
                for number, victim in enumerate(victims):
                    wait_for_progress(driver)
                    if tally.is_time_over:
                        del victims[number:]
                        break
                    time.sleep(chance.uniform(0, 3))
                    strike(victim, driver, cluster, chance)
                    tally.tell(f"{number + 1} of {len(victims)}: {victim}, batch {driver.last_commit}")
                wait_for_progress(driver)
            _wait_until_all_is_copied(cluster, len(written), driver)
        finally:
            driver.stop()
        found = Counter(committed_in(cluster))
        lost, doubled = [one for one in written if one not in found], [one for one, n in found.items() if n > 1]
        assert (lost[:5], doubled[:5], len(found)) == ([], [], len(written)), f"seed {seed}"
        batches = driver.last_commit + 1
        tally.add(seed, victims, records=len(written), starts_of_driver=driver.starts, micro_batches=batches)


def _victims(kills: int, chance: random.Random) -> list[str]:
    """Each kind at least once, if there are enough."""
    victims = ["driver", "worker", "broker", *chance.choices(["driver", "worker", "worker", "broker"], k=kills)]
    del victims[max(kills, 0) :]
    chance.shuffle(victims)
    return victims


def strike(victim: str, driver: Driver, cluster: ProcessCluster, chance: random.Random) -> None:
    if victim == "driver":
        driver.kill()
    elif victim == "worker":
        until(driver.kill_worker, "the driver has no Python process", within_s=RESTART_WITHIN_S)
    else:
        node = chance.choice(cluster.ids)
        cluster.kill(node)
        time.sleep(chance.uniform(0, 4))
        cluster.start(node)


def wait_for_progress(driver: Driver) -> None:
    before = driver.last_commit
    until(lambda: driver.last_commit > before, driver.output, within_s=RESTART_WITHIN_S)


def _wait_until_all_is_copied(cluster: ProcessCluster, records: int, driver: Driver) -> None:
    def all_are_there() -> bool:
        time.sleep(1)
        return len(committed_in(cluster)) >= records

    until(all_are_there, driver.output, within_s=RESTART_WITHIN_S)
