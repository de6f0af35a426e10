"""A cluster of one's own, each node a real process, for tests that kill, pause and restart nodes.

with running_processes(tmp_path, 3) as cluster:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    cluster.kill(2)                                   # kill -9
    cluster.start(2)                                  # same ports, same data
    cluster.restart(1)                                # leaders go elsewhere first

All nodes are brokers and controllers, with the ids 1, 2, 3 ...; `roles={1: "controller"}` says otherwise. Ports are
free ones. `ottla.testing.namespaces` gives each node a network of its own, which can be cut. Where no node has to die,
`ottla.testing.cluster` has them all in this process and is faster.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from ottla.env.disk import PosixDisk
from ottla.env.randomness import SeededRandom
from ottla.metadata import meta_properties
from ottla.metadata.meta_properties import MetaProperties
from ottla.testing.apache_kafka import free_port
from ottla.testing.process import NodeDied

_HOST: Final = "127.0.0.1"
_BOTH: Final = "broker,controller"
_UP: Final = " is up at "
_WITHIN_S: Final = 60.0


class Network(Protocol):
    """Where nodes run: the address of each, and how a process is started that has it."""

    def host(self, i: int) -> str: ...

    def within(self, i: int, command: list[str]) -> list[str]: ...


class Loopback:
    """All on one address, which everybody has."""

    def host(self, i: int) -> str:
        return _HOST

    def within(self, i: int, command: list[str]) -> list[str]:
        return command


class ProcessCluster:
    def __init__(
        self,
        folder: Path,
        size: int,
        settings: dict[str, str],
        roles: Mapping[int, str] | None = None,
        network: Network | None = None,
        of_each: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        self.folder = folder
        self.ids = tuple(range(1, size + 1))
        self.ports = {i: free_port() for i in self.ids}
        self.controller_ports = {i: free_port() for i in self.ids}
        self._settings = settings
        self._roles = dict.fromkeys(self.ids, _BOTH) | dict(roles or {})
        self._network = network or Loopback()
        self._of_each = of_each or {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._begun_at: dict[int, int] = {}
        self._format()

    @property
    def bootstrap(self) -> str:
        """All nodes, also those that are away: a client finds one that is there."""
        return ",".join(self.address(i) for i in self.ids if "broker" in self._roles[i])

    @property
    def controllers(self) -> str:
        """The controllers' listeners of all."""
        return ",".join(
            f"{self._network.host(i)}:{self.controller_ports[i]}" for i in self.ids if "controller" in self._roles[i]
        )

    def address(self, i: int) -> str:
        return f"{self._network.host(i)}:{self.ports[i]}"

    def data(self, i: int) -> Path:
        return self.folder / f"data-{i}"

    def pid(self, i: int) -> int:
        return self._processes[i].pid

    def log(self, i: int, *, since: int = 0) -> str:
        """What a node wrote to stdout and stderr, over all its lives; `since` counts bytes."""
        if not self._log_file(i).exists():
            return ""
        with self._log_file(i).open("rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")

    def is_running(self, i: int) -> bool:
        return i in self._processes and self._processes[i].poll() is None

    def start(self, *ids: int, within: float = _WITHIN_S) -> None:
        """Together, as a quorum needs a majority to begin; returns when all serve. Without ids: all."""
        for i in ids or self.ids:
            self.begin(i)
        self.wait_until_up(*ids or self.ids, within=within)

    def begin(self, i: int) -> None:
        """Starts the process and does not wait: `wait_until_up` does, or a kill in the middle of starting."""
        file = self._log_file(i)
        self._begun_at[i] = file.stat().st_size if file.exists() else 0
        command = [sys.executable, "-m", "ottla.cli.main", "broker", "--config", str(self._config_file(i))]
        command = self._network.within(i, command)
        with file.open("ab") as log:
            self._processes[i] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until_up(self, *ids: int, within: float = _WITHIN_S) -> None:
        deadline = time.monotonic() + within
        for i in ids:
            self._wait_until_up(i, deadline)

    def kill(self, *ids: int) -> None:
        """kill -9, all at once: what the page cache holds survives, nothing is flushed or marked."""
        for i in ids:
            self._processes[i].kill()
        for i in ids:
            self._processes.pop(i).wait()

    def pause(self, i: int) -> None:
        os.kill(self._processes[i].pid, signal.SIGSTOP)

    def go_on(self, i: int) -> None:
        os.kill(self._processes[i].pid, signal.SIGCONT)

    def stop(self, *ids: int, within: float = _WITHIN_S) -> None:
        """A clean stop, of several at once; raises if one does not end, or ends with an error."""
        for i in ids:
            self._processes[i].terminate()
        for i in ids:
            process = self._processes.pop(i)
            try:
                code = process.wait(within)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise NodeDied(f"node {i} did not stop within {within:.0f} s:\n{self.log(i)[-4000:]}") from None
            if code and code != -signal.SIGTERM:  # by which one ends that has only begun to start
                raise NodeDied(f"node {i} stopped with exit code {code}:\n{self.log(i)[-4000:]}")

    def restart(self, i: int) -> None:
        self.stop(i)
        self.start(i)

    def close(self) -> None:
        self.kill(*self._processes)

    def _wait_until_up(self, i: int, deadline: float) -> None:
        while _UP not in (told := self.log(i, since=self._begun_at[i])):
            if not self.is_running(i):
                raise NodeDied(f"node {i} ended while it was starting:\n{told[-4000:]}")
            if time.monotonic() > deadline:
                raise NodeDied(f"node {i} did not serve in time:\n{told[-4000:]}")
            time.sleep(0.01)

    def _log_file(self, i: int) -> Path:
        return self.folder / f"node-{i}.log"

    def _config_file(self, i: int) -> Path:
        return self.folder / f"node-{i}.properties"

    def _format(self) -> None:
        disk, source = PosixDisk(), SeededRandom(random.SystemRandom())
        cluster_id = meta_properties.uuid_text(meta_properties.random_uuid(source))
        controllers = {i: f"{self._network.host(i)}:{port}" for i, port in self.controller_ports.items()}
        voters = ",".join(f"{i}@{where}" for i, where in controllers.items() if "controller" in self._roles[i])
        for i in self.ids:
            data = self.data(i)
            listeners = {"broker": f"PLAINTEXT://{self.address(i)}", "controller": f"CONTROLLER://{controllers[i]}"}
            values = {
                "process.roles": self._roles[i],
                "node.id": str(i),
                "listeners": ",".join(listeners[role] for role in self._roles[i].split(",")),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "log.dirs": str(data),
                **self._settings,
                **self._of_each.get(i, {}),
            }
            self.folder.mkdir(parents=True, exist_ok=True)
            self._config_file(i).write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            disk.make_dirs(str(data))
            meta = MetaProperties(cluster_id, i, meta_properties.random_uuid(source))
            meta_properties.store(disk, str(data), meta, now_ms=0)


@contextmanager
def running_processes(
    folder: Path,
    size: int = 3,
    *,
    roles: Mapping[int, str] | None = None,
    network: Network | None = None,
    of_each: Mapping[int, Mapping[str, str]] | None = None,
    **settings: str | int | bool,
) -> Iterator[ProcessCluster]:
    """A cluster that serves; killed at the end, however the test went.

    Settings are broker configs with `_` for `.`; those that nodes differ in are `of_each`, by node and full name.
    """
    given = {
        name.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
    cluster = ProcessCluster(folder, size, given, roles, network, of_each)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
