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
from typing import Any, Final

from tests.broker.apis.altering import GROUP, set_config
from tests.cli.command import run_ottla
from tests.interop.conftest import create_topic
from tests.waiting import until

from ottla.testing.process import NodeProcess

SESSION_S: Final = 1.5
POLL_S: Final = 2.0
PROTOCOLS: Final = ("classic", "consumer")
NODE: Final[dict[str, str | int]] = {
    "group_min_session_timeout_ms": 500,
    "group_initial_rebalance_delay_ms": 100,
    "group_consumer_min_session_timeout_ms": 500,
    "group_consumer_session_timeout_ms": int(SESSION_S * 1000),
    "group_consumer_min_heartbeat_interval_ms": 100,
    "group_consumer_heartbeat_interval_ms": 200,
}
_numbers = count()


class Member:
    def __init__(self, group: Group, name: str, instance: str | None, **settings: str) -> None:
        self.name = instance or name
        self.group = group
        given = {
            "bootstrap.servers": group.node.address, "group.id": group.id, "client.id": name,
            "group.protocol": group.protocol, "auto.offset.reset": "earliest", "auto.commit.interval.ms": "200",
            "max.poll.interval.ms": str(max(int(POLL_S * 1000), group.session_ms)), **settings,
        }  # fmt: skip
        if group.protocol == "classic":
            given |= {"session.timeout.ms": str(group.session_ms), "heartbeat.interval.ms": "200"}
        if instance is not None:
            given["group.instance.id"] = instance
        command = [sys.executable, "-m", "tests.why.member", group.topic, str(POLL_S + 1.5)]
        self.process = subprocess.Popen(
            [*command, *(f"{key}={value}" for key, value in given.items())], stderr=subprocess.DEVNULL
        )

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

    def __init__(self, node: NodeProcess, protocol: str, seed: int) -> None:
        self.node, self.protocol = node, protocol
        self.random = Random(seed)
        self.id = f"group-{protocol}-{next(_numbers)}"
        self.topic = create_topic(node.address, f"topic-of-{self.id}", 6)
        self.members: list[Member] = []
        self.session_ms = int(SESSION_S * 1000)
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
            time.sleep(0.1)

    def misses_nobody(self) -> None:
        """However slow the machine is: where no session is to end."""
        self.session_ms = 45_000
        set_config(self.node.address, GROUP, self.id, consumer_session_timeout_ms=str(self.session_ms))

    def end(self) -> None:
        self._ends.set()
        self._producing.join()
        for member in self.members:
            member.process.kill()
            member.process.wait()

    def start(self, *names: str, instance: bool = False, **settings: str) -> list[Member]:
        new = [Member(self, name, f"instance-{name}" if instance else None, **settings) for name in names]
        self.members += new
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
        until(holds, lambda: f"{what}: {json.dumps(self.why(), indent=1)[:6000]}")

    def why(self) -> dict[str, Any]:
        asked = run_ottla("group", "why", self.id, "-O", "json", address=self.node.address)
        if asked.returncode:  # nobody has asked for its coordinator yet
            return {"state": "", "members": 0, "findings": [], "history": [], "told": asked.stderr}
        told: dict[str, Any] = json.loads(asked.stdout)
        return told

    def findings(self) -> dict[str, dict[str, Any]]:
        return {finding["kind"]: finding for finding in self.why()["findings"]}


@contextmanager
def group_of(node: NodeProcess, protocol: str, seed: int) -> Iterator[Group]:
    group = Group(node, protocol, seed)
    try:
        yield group
    finally:
        group.end()
