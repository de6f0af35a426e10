"""Consume, transform, produce, with offsets in the transaction: every input is in the output exactly once.

The client is killed between its steps, nodes under it; what was committed is whole, what was not leaves no trace.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.kill.transform import SINK, SOURCE, Step

from ottla.testing.process import running_process
from ottla.testing.process_cluster import ProcessCluster, running_processes

PARTITIONS = 3
PATIENCE_S = 60
PROGRAM = Path(__file__).with_name("transform.py")
Kill = Callable[[Callable[[], None]], None]
"""It gets what feeds some more numbers: a client that has nothing to do comes to none of its steps."""


class Transformer:
    """The client's process; it is killed and started again. All of its lives write to one log."""

    def __init__(self, address: str, log: Path) -> None:
        self._command = [sys.executable, str(PROGRAM), address, "transform"]
        self.log = log
        self._process = self._start()
        self.died_at: Counter[str] = Counter()

    def _start(self) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            return subprocess.Popen(self._command, stdin=subprocess.PIPE, stderr=log, text=True)

    def kill_at(self, step: Step, feed_more: Callable[[], None]) -> None:
        self.look()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            print(step, file=self._process.stdin, flush=True)
        feed_more()
        try:
            self._process.wait(PATIENCE_S)
            self.died_at[step] += 1
        except subprocess.TimeoutExpired:  # the nodes are in trouble themselves: then wherever it is
            self.died_at["elsewhere"] += 1
        self.end()
        self._process = self._start()

    def look(self) -> None:
        """If it gave up, as one that was fenced does, it begins anew."""
        if self._process.poll() is not None:
            self.end()
            self._process = self._start()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        with suppress(BrokenPipeError):
            self._process.stdin.close()


@contextmanager
def transforming(address: str, log: Path) -> Iterator[Transformer]:
    client = Transformer(address, log)
    try:
        yield client
    finally:
        client.end()


def create(address: str, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, replicas) for name in (SOURCE, SINK)]).values():
        future.result()


def feed(address: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
    for number in numbers:
        producer.produce(SOURCE, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(120) == 0


def committed(address: str) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "looking",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(SINK, partition, 0) for partition in range(PARTITIONS)])
    found: list[int] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + 60
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found.append(int(message.value() or b""))
        else:
            ended.add(message.partition())
    consumer.close()
    return found


def kill_and_check(address: str, client: Transformer, kills: list[Kill], seed: int) -> None:
    dice = random.Random(seed)
    fed = 0

    def feed_more() -> None:
        nonlocal fed
        feed(address, range(fed, fed + 30))
        fed += 30

    began = time.monotonic()
    for number, kill in enumerate(kills, 1):
        feed_more()
        time.sleep(dice.uniform(0.05, 0.6))
        kill(feed_more)
        client.look()
        if number % 10 == 0:  # to be seen with -s: all of them take a while
            took_s = time.monotonic() - began
            print(f"{number} of {len(kills)} kills, {fed} numbers fed, {took_s:.0f} s", flush=True)
    deadline = time.monotonic() + 180
    while len(found := committed(address)) < fed and time.monotonic() < deadline:
        client.look()
        time.sleep(0.2)
    assert sorted(found) == list(range(fed)), f"seed {seed}; what the client said: {client.log}"


def test_a_client_and_its_node_are_killed(tmp_path: Path) -> None:
    settings = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 500}
    with running_process(tmp_path, **settings) as node:
        create(node.address, 1)

        def restart(_: object) -> None:
            node.kill()
            node.start()

        with transforming(node.address, tmp_path / "client.log") as client:
            deaths: list[Kill] = [partial(client.kill_at, step) for step in (Step.FLUSHED, Step.COMMITTING)]
            kill_and_check(node.address, client, [deaths[0], restart, deaths[1], restart], seed=5)
            assert client.died_at.keys() == {Step.FLUSHED, Step.COMMITTING}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_kills_of_clients_coordinators_and_leaders(tmp_path: Path) -> None:
    with running_processes(tmp_path, 3) as cluster:
        create(cluster.bootstrap, 3)
        dice = random.Random(11)
        with transforming(cluster.bootstrap, tmp_path / "client.log") as client:
            kills: list[Kill] = [partial(client.kill_at, step) for step in islice(cycle(Step), 66)]
            kills += [_restart(cluster, lambda: _coordinator(cluster)) for _ in range(67)]
            kills += [_restart(cluster, lambda: _leader(cluster, dice)) for _ in range(67)]
            dice.shuffle(kills)
            kill_and_check(cluster.bootstrap, client, kills, seed=11)
            assert client.died_at.total() - client.died_at["elsewhere"] >= 50, client.died_at


def _restart(cluster: ProcessCluster, who: Callable[[], int]) -> Kill:
    def kill(_: object) -> None:
        victim = who()
        cluster.kill(victim)
        time.sleep(0.3)
        cluster.start(victim)

    return kill


def _leader(cluster: ProcessCluster, dice: random.Random) -> int:
    return _leader_of(cluster, SINK, dice.randrange(PARTITIONS))


def _coordinator(cluster: ProcessCluster) -> int:
    from ottla.coordinator.group.hashing import group_hash

    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics("__transaction_state", 30)
    partitions = metadata.topics["__transaction_state"].partitions
    return _leader_of(cluster, "__transaction_state", group_hash("transform") % max(len(partitions), 1))


def _leader_of(cluster: ProcessCluster, topic: str, partition: int) -> int:
    metadata = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(topic, 30)
    found = metadata.topics[topic].partitions.get(partition)
    return found.leader if found is not None and found.leader > 0 else cluster.ids[0]
