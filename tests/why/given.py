"""Real members in processes of their own, a node, and what `ottla group why` says about them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, Final, NamedTuple

from tests.broker.apis.altering import GROUP, set_config
from tests.interop.conftest import create_topic
from tests.waiting import attempts

from ottla.cli.admin import session
from ottla.cli.cluster_options import Addresses, Cluster
from ottla.cli.group.why import report_on
from ottla.model.errors import OttlaError
from ottla.testing.process import NodeProcess


class Pace(NamedTuple):
    session_s: float
    poll_s: float
    heartbeat_ms: int


QUICK: Final = Pace(1.5, 2.0, 200)
PATIENT: Final = Pace(8.0, 9.0, 1500)
"""Where dozens of members run side by side: one that is late for a second is not to be missed, and nobody gives up an
answer that takes a while (librdkafka does after the interval of heartbeats)."""
PROTOCOLS: Final = ("classic", "consumer")
NODE: Final[dict[str, str | int]] = {
    "group_min_session_timeout_ms": 500,
    "group_initial_rebalance_delay_ms": 100,
    "group_consumer_min_session_timeout_ms": 500,
    "group_consumer_min_heartbeat_interval_ms": 100,
}
_numbers = count()


class Member:
    def __init__(self, group: Group, name: str, instance: str | None, **settings: str) -> None:
        self.name = instance or name
        self.group = group
        given = {
            "bootstrap.servers": group.node.address, "group.id": group.id, "client.id": name,
            "group.protocol": group.protocol, "auto.offset.reset": "earliest", "auto.commit.interval.ms": "200",
            "max.poll.interval.ms": str(max(int(group.pace.poll_s * 1000), group.session_ms)), **settings,
        }  # fmt: skip
        if group.protocol == "classic":
            given |= {
                "session.timeout.ms": str(group.session_ms),
                "heartbeat.interval.ms": str(group.pace.heartbeat_ms),
            }
        if instance is not None:
            given["group.instance.id"] = instance
        command = [sys.executable, "-m", "tests.why.member", group.topic, str(group.pace.poll_s + 1.5)]
        self.process = subprocess.Popen(
            [*command, *(f"{key}={value}" for key, value in given.items())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline(), f"{self.name} did not start"

    def begin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop_polling(self) -> None:
        """For longer than max.poll.interval.ms."""
        self.process.send_signal(signal.SIGUSR1)


class Group:
    """A group of its own on the node, with records that keep coming."""

    def __init__(self, node: NodeProcess, protocol: str, seed: int, pace: Pace) -> None:
        self.node, self.protocol, self.pace = node, protocol, pace
        self.random = Random(seed)
        self.id = f"group-{protocol}-{next(_numbers)}"
        self.topic = create_topic(node.address, f"topic-of-{self.id}", 6)
        self.members: list[Member] = []
        self._set_session(pace.session_s)
        self._ends = threading.Event()
        self._producing = threading.Thread(target=self._produce, daemon=True)
        self._producing.start()

    def _produce(self) -> None:
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.node.address})
        while not self._ends.is_set():
            for partition in range(6):
                producer.produce(self.topic, b"x", partition=partition)
            producer.flush(1)
            time.sleep(0.2)

    def misses_nobody(self) -> None:
        """However slow the machine is: where no session is to end."""
        self._set_session(45)

    def _set_session(self, session_s: float) -> None:
        self.session_ms = int(session_s * 1000)
        set_config(
            self.node.address,
            GROUP,
            self.id,
            consumer_session_timeout_ms=str(self.session_ms),
            consumer_heartbeat_interval_ms=str(self.pace.heartbeat_ms),
        )

    def end(self) -> None:
        self._ends.set()
        self._producing.join()
        for member in self.members:
            member.kill()

    def start(self, *names: str, instance: bool = False, **settings: str) -> list[Member]:
        new = [Member(self, name, f"instance-{name}" if instance else None, **settings) for name in names]
        self.members += new
        for member in new:
            member.wait_until_ready()
        for member in new:
            member.begin()
        return new

    def settle(self, members: int) -> None:
        """Until the group is stable with so many."""
        self.until(lambda: self._is_stable(members), f"a stable group of {members}")

    def _is_stable(self, members: int) -> bool:
        told = self.why()
        return told["state"] == "Stable" and told["members"] == members and bool(told["history"])

    def wait(self, least: float, most: float) -> None:
        time.sleep(self.random.uniform(least, most))

    def until(self, holds: Callable[[], bool], what: str) -> None:
        for _ in attempts(lambda: f"{what}: {json.dumps(self.why(), indent=1)[:6000]}", pause_s=0.2):
            if holds():
                return

    def why(self) -> dict[str, Any]:
        """What `ottla group why --output json` prints, without a process for each question."""
        cluster = Cluster(Addresses().convert(self.node.address, None, None))
        now_ms = int(time.time() * 1000)
        try:
            return session.run(cluster, lambda there: report_on(there, self.id, None, now_ms)).as_value(5)
        except OttlaError as error:  # nobody has asked for its coordinator yet
            return {"state": "", "members": 0, "findings": [], "history": [], "told": str(error)}

    def findings(self) -> dict[str, dict[str, Any]]:
        return {finding["kind"]: finding for finding in self.why()["findings"]}


@contextmanager
def group_of(node: NodeProcess, protocol: str, seed: int, pace: Pace) -> Iterator[Group]:
    group = Group(node, protocol, seed, pace)
    try:
        yield group
    finally:
        group.end()
