"""Several nodes of one cluster in this process, on one event loop in a thread of its own, over real sockets.

with running_cluster(tmp_path, 3) as cluster:
    leader = cluster.active_controller()

A node that is killed leaves its folder as kill -9 would, except that its last writes are in the page cache for sure.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ottla.broker.node import Node
from ottla.broker.run import real_env
from ottla.env.disk import PosixDisk
from ottla.env.randomness import SeededRandom
from ottla.metadata import meta_properties
from ottla.metadata.meta_properties import MetaProperties
from ottla.model.config import BrokerConfig, broker_config
from ottla.model.ids import random_uuid, uuid_text
from ottla.raft import initial_voters
from ottla.raft.initial_voters import a_voter
from ottla.raft.voters import VoterSet
from ottla.testing.apache_kafka import free_port

T = TypeVar("T")
_WITHIN_S = 60.0


class Cluster:
    """Nodes have the ids 1, 2, 3 ...; all are controllers, unless `roles` says otherwise for one."""

    def __init__(
        self, folder: Path, size: int, roles: dict[int, str], settings: dict[str, str], initial: tuple[int, ...]
    ) -> None:
        self.folder = folder
        self.nodes: dict[int, Node] = {}
        """Those that run."""
        self.ids = tuple(range(1, size + 1))
        self.roles = {i: roles.get(i, "controller") for i in self.ids}
        self.ports = {i: free_port() for i in self.ids}
        self.controller_ports = {i: free_port() for i in self.ids}
        source = SeededRandom(random.SystemRandom())
        self.cluster_id = uuid_text(random_uuid(source))
        self.settings = settings
        self.initial = VoterSet.of(
            a_voter(i, random_uuid(source), "CONTROLLER", "127.0.0.1", self.controller_ports[i]) for i in initial
        )
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="ottla cluster", daemon=True)
        self._thread.start()

    def config(self, i: int) -> BrokerConfig:
        roles, listeners = self.roles[i], []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self.ports[i]}")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_ports[i]}")
        controllers = {j: self.controller_ports[j] for j in self.ids if "controller" in self.roles[j]}
        quorum = {"controller.quorum.voters": ",".join(f"{j}@127.0.0.1:{port}" for j, port in controllers.items())}
        if len(self.initial):
            servers = ",".join(f"127.0.0.1:{port}" for port in controllers.values())
            quorum = {"controller.quorum.bootstrap.servers": servers}
        return broker_config(
            {
                "process.roles": roles,
                "node.id": str(i),
                "listeners": ",".join(listeners),
                "controller.listener.names": "CONTROLLER",
                **quorum,
                "log.dirs": str(self.folder / str(i)),
                **self.settings,
            }
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_WITHIN_S)

    def on_loop(self, work: Callable[[], T]) -> T:
        """Runs a function where the nodes run: the only place from which their insides may be touched."""

        async def run() -> T:
            return work()

        return self.run(run())

    def start(self, *ids: int) -> None:
        """Together, as a quorum needs a majority to begin; returns when all serve."""

        async def start_all() -> None:
            await asyncio.gather(*(self._start(i) for i in ids))

        self.run(start_all())

    async def _start(self, i: int) -> None:
        config = self.config(i)
        self._format(config)
        node = Node(real_env(), config)
        self.nodes[i] = node
        await node.start()

    def _format(self, config: BrokerConfig) -> None:
        disk, source = PosixDisk(), SeededRandom(random.SystemRandom())
        for folder in dict.fromkeys((config.metadata_log_dir, *config.log_dirs)):
            if meta_properties.load(disk, folder) is not None:
                continue
            disk.make_dirs(folder)
            directory_id = random_uuid(source)
            voter = self.initial.nodes.get(config.node_id)
            if folder == config.metadata_log_dir and voter is not None:
                initial_voters.store(disk, folder, self.initial, now_ms=0)
                directory_id = voter.key.directory_id
            meta = MetaProperties(self.cluster_id, config.node_id, directory_id)
            meta_properties.store(disk, folder, meta, now_ms=0)

    def stop(self, i: int) -> None:
        self.run(self.nodes.pop(i).stop())

    def active_controller(self, *, within: float = _WITHIN_S) -> Node:
        return self.until(
            lambda: next((node for node in self.nodes.values() if node.local_controller.is_active), None), within=within
        )

    def until(self, holds: Callable[[], T | None], *, within: float = _WITHIN_S) -> T:
        """What the function gives, on the loop, once that is true."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            found = self.on_loop(holds)
            if found:
                return found
            time.sleep(0.005)
        raise TimeoutError("it has not come true in time")

    def close(self) -> None:
        try:
            for i in list(self.nodes):
                self.stop(i)
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_WITHIN_S)
            self.loop.close()


@contextmanager
def running_cluster(
    folder: Path,
    size: int,
    roles: dict[int, str] | None = None,
    *,
    start: bool = True,
    initial_voters: tuple[int, ...] = (),
    **settings: str | int,
) -> Iterator[Cluster]:
    """Settings are configs of all nodes with `_` for `.`.

    `initial_voters` are those that the quorum begins with, if its voters are in the log (KIP-853); by default all
    controllers are voters by their config.
    """
    given = {name.replace("_", "."): str(value) for name, value in settings.items()}
    cluster = Cluster(folder, size, roles or {}, given, initial_voters)
    try:
        if start:
            cluster.start(*cluster.ids)
        yield cluster
    finally:
        cluster.close()
