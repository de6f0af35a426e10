"""The two sides of a bench, started, stopped and looked at in the same way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import ApacheKafka, Setting

# The same for both sides. Deletion and retention are prompt, so that they happen while a bench lasts.
SETTINGS: dict[str, Setting] = {
    "num.partitions": 1,
    "auto.create.topics.enable": False,
    "log.retention.check.interval.ms": 1000,
    "log.segment.delete.delay.ms": 200,
}


class Node(ABC):
    """A node of one side; `directory` keeps its data over restarts."""

    side: str

    replication_factor = 1

    def __init__(self, directory: Path, **settings: Setting) -> None:
        self.directory = directory
        self.settings = {**SETTINGS, **settings}
        self.cluster_id = apache_kafka.random_cluster_id()
        self.port = apache_kafka.free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.data = directory / "data"
        self._admin: AdminClient | None = None

    @abstractmethod
    def format(self) -> None: ...

    @abstractmethod
    def start(self, *, wait: bool = True) -> float:
        """Starts the process and gives the monotonic time just before; without `wait`, it may not listen yet."""

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def kill(self) -> None: ...

    @property
    @abstractmethod
    def pid(self) -> int: ...

    def loop_lag(self) -> dict[str, float] | None:
        """Percentiles of the event loop's lag in ms since the last call, where the side has an event loop."""
        return None

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def forget_clients(self) -> None:
        self._admin = None

    def create_topic(self, name: str, partitions: int, config: dict[str, str] | None = None) -> None:
        factor = self.replication_factor
        topic = NewTopic(name, num_partitions=partitions, replication_factor=factor, config=config or {})
        self.admin.create_topics([topic])[name].result(timeout=30)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = self.admin.list_topics(name, timeout=30).topics[name].partitions
            if len(found) == partitions and all(p.leader >= 0 and len(p.isrs) == factor for p in found.values()):
                return
            time.sleep(0.02)
        raise TimeoutError(f"{self.side}: topic {name} has no leaders after 30 s")

    def delete_topic(self, name: str) -> None:
        """Deletes it and waits until its folders are gone: the disk must be at rest when the next load begins."""
        self.admin.delete_topics([name])[name].result(timeout=30)
        deadline = time.monotonic() + 30
        while any(self.data.glob(f"{name}*-*")) and time.monotonic() < deadline:
            time.sleep(0.05)

    def cpu_seconds(self) -> float:
        """User and system time of the process and its descendants, those that have ended included."""
        total = 0.0
        for process in _tree(self.pid):
            with _gone_is_fine():
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def memory_mb(self) -> dict[str, float]:
        rss = pss = 0
        for process in _tree(self.pid):
            with _gone_is_fine():
                full = process.memory_full_info()
                rss, pss = rss + full.rss, pss + full.pss
        return {"rss": round(rss / 1e6, 1), "pss": round(pss / 1e6, 1)}


class KafkaNode(Node):
    side = "kafka"
    _kafka: ApacheKafka | None = None

    def format(self) -> None:
        apache_kafka.format_storage(self.directory, self.port, self.cluster_id, **self.settings)

    def start(self, *, wait: bool = True) -> float:
        began = time.monotonic()
        self._kafka = ApacheKafka.start(
            self.directory, self.port, wait=wait, cluster_id=self.cluster_id, **self.settings
        )
        return began

    def stop(self) -> None:
        if self._kafka is not None:
            self._kafka.stop()

    def kill(self) -> None:
        if self._kafka is not None:
            self._kafka.kill()

    @property
    def pid(self) -> int:
        assert self._kafka is not None, "it was not started"
        return self._kafka.pid


class OttlaNode(Node):
    side = "ottla"
    _process: subprocess.Popen[bytes] | None = None

    def format(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self.directory / "server.properties"
        if not properties.exists():
            properties.write_text(apache_kafka.server_properties(self.directory, self.port, **self.settings))
        if (self.data / "meta.properties").exists():
            return
        subprocess.run(
            [*ottla_command(), "storage", "format", "-t", self.cluster_id, "-c", str(properties)],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def start(self, *, wait: bool = True) -> float:
        self.format()
        began = time.monotonic()
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [*ottla_command(), "broker", "--config", str(self.directory / "server.properties")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if wait:
            self._wait_until_listening()
        return began

    def _wait_until_listening(self) -> None:
        deadline = time.monotonic() + 60
        while not apache_kafka.listening(self.port):
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Ottla does not listen on port {self.port}:\n{self._output.read_text()[-3000:]}")
            time.sleep(0.005)

    @property
    def _output(self) -> Path:
        return self.directory / "ottla.out"

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def kill(self) -> None:
        if self._process is None:
            return
        # Its workers too: left alone they end when they see their pipe closed, which may be after the next start.
        for process in _tree(self._process.pid):
            with _gone_is_fine():
                process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was not started"
        return self._process.pid

    def loop_lag(self) -> dict[str, float] | None:
        if not _catches(self.pid, signal.SIGUSR1):
            return None  # the signal would end it
        before = self._output.stat().st_size
        os.kill(self.pid, signal.SIGUSR1)
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            found = _last_loop_lag(self._output.read_bytes()[before:])
            if found is not None:
                return found
            time.sleep(0.01)
        return None


def ottla_command() -> list[str]:
    """The `ottla` of the environment that runs the bench."""
    return [str(Path(sys.executable).with_name("ottla"))]


def _last_loop_lag(output: bytes) -> dict[str, float] | None:
    """A line of the node's log that is, or ends in, JSON with `loop_lag_ms`: percentiles since the last such line."""
    for line in reversed(output.splitlines(keepends=True)):
        if b'"loop_lag_ms"' in line and line.endswith(b"\n"):
            entry: dict[str, Any] = json.loads(line[line.index(b"{") :])
            return {name: float(value) for name, value in entry["loop_lag_ms"].items()}
    return None


def _catches(pid: int, signal_number: int) -> bool:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal_number - 1) & 1)
    return False


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        pass
