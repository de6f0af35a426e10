"""A real node on a simulated host: formatted, started, killed, stopped and started again, with its lives noted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import cast

from ottla.broker.node import Node
from ottla.env.loop_lag import LoopLag
from ottla.env.ports import BY_DEFAULT, Env, Gate, Listener, Network, SocketOptions
from ottla.metadata import bootstrap, meta_properties
from ottla.metadata.controller.features import LATEST_METADATA_VERSION, bootstrap_records
from ottla.model.config import broker_config, standalone
from ottla.sim.disk import SimDisk
from ottla.sim.executor import SimExecutor
from ottla.sim.faults import Moment
from ottla.sim.history import Death, History, Opened
from ottla.sim.host import HostCrashed, Process
from ottla.sim.log_files import PartitionId, StoredLog, partition_folders, read_folder
from ottla.sim.world import World

PORT = 9092
LOG_DIR = "/data"
_TOO_MANY = 50


class SimNode:
    """`keep_running` starts it again whenever it is down, until `stop_for_good`."""

    def __init__(self, world: World, history: History, settings: Mapping[str, str], name: str = "node") -> None:
        self.host = world.host(name)
        self.config = broker_config(standalone(LOG_DIR, PORT, name) | dict(settings))
        self.restart_after_s = (0.05, 1.0)
        self.node: Node | None = None
        """While it serves."""
        self._history = history
        self._random: Random = world.random(f"{name}/restarts")
        self._stop: asyncio.Event | None = None
        self._stopped_cleanly = False
        self._wanted = True
        self._failed_starts = 0  # in a row
        self._process: Process[None] | None = None
        self._serving = asyncio.Event()
        self.host.before_end.append(self._note_death)

    @property
    def life(self) -> int:
        return self.host.incarnation.number if self.host.incarnation is not None else 0

    @property
    def disk(self) -> SimDisk:
        return self.host.disk

    # -- running

    async def keep_running(self) -> None:
        while self._wanted and self._failed_starts < _TOO_MANY:
            self._process = self.host.start(self._main)
            try:
                await self._process
            except HostCrashed:
                pass
            except Exception as error:
                self._ended_by(error)
            if self.host.is_up:
                self.kill()
            if self._wanted:
                await asyncio.sleep(self._random.uniform(*self.restart_after_s))

    def _ended_by(self, error: Exception) -> None:
        self._failed_starts += 1
        self._history.counts["starts that failed"] += 1
        if not self.disk.failures:
            self._history.complain(f"the node of life {self.life} ended with {error!r} although its disk is sound")

    async def _main(self, env: Env) -> None:
        self._stop = stop = asyncio.Event()
        self._stopped_cleanly = False
        _format(env, self)
        node = Node(replace(env, network=_Doorbell(env.network, lambda: self._note_opened(node))), self.config)
        node.loop_lag = _NeverLate(env.clock)
        await node.start()
        assert node.failed is not None
        node.failed.add_done_callback(lambda _: stop.set())
        self.node = node
        self._failed_starts = 0
        self._serving.set()
        await stop.wait()
        self._serving.clear()
        self.node = None
        if node.failed.done():
            node.failed.result()
        await node.stop()
        self._stopped_cleanly = not self.disk.failures
        self._history.counts["clean stops"] += 1

    async def serving(self) -> None:
        await self._serving.wait()

    # -- ending

    def kill(self) -> None:
        """kill -9; but a machine whose disk failed to sync is switched off instead.

        Its page cache now shows, as clean pages, what the disk does not have: a process that starts on it cannot know.
        """
        if self.disk.failures["sync"]:
            self.host.power_loss()
        else:
            self.host.crash()

    def power_loss(self) -> None:
        self.host.power_loss()

    def die_at(self, operation: int, moment: Moment, *, power_loss: bool) -> None:
        """Plans a death at a disk operation that is to come."""
        if self.host.is_up:
            self.host.crash_at(operation, moment, power_loss=power_loss or bool(self.disk.failures["sync"]))

    def stop(self) -> None:
        """SIGTERM. The next life begins as after any other end."""
        if self._stop is not None and self.host.is_up:
            self._stop.set()

    def stop_for_good(self) -> None:
        self._wanted = False
        self.stop()

    def slow_down(self, longest_s: float) -> None:
        """How long a job in the executor may take, for the rest of this life."""
        if self.host.is_up:
            cast(SimExecutor, self.host.env.executor).longest_s = longest_s

    # -- what the oracle looks at

    def _note_opened(self, node: Node) -> None:
        files = self.disk.snapshot()
        logs, ends = {}, {}
        for log in node.logs.all_logs():
            key = PartitionId(log.topic_id, log.partition.partition)
            logs[key] = self._read(files, log.folder, key)
            ends[key] = log.end_offset
        image = node.image
        topics = {topic.id: topic.name for topic in image.topics.values()}
        configs = {topic.id: dict(image.topic_config(topic.name)) for topic in image.topics.values()}
        disk_failed = bool(self.disk.failures)
        opened = Opened(self._history.now(), node.cluster_id, topics, configs, logs, ends, disk_failed)
        self._history.life(self.life).opened = opened

    def _note_death(self, disk: SimDisk, is_power_loss: bool) -> None:
        self._serving.clear()
        self.node = None
        starts = self._history.starts
        files = disk.snapshot()
        folders = {
            key: folder for log_dir in self.config.log_dirs for key, folder in partition_folders(files, log_dir).items()
        }
        logs = {key: self._read(files, folder, key) for key, folder in folders.items()}
        sure: dict[PartitionId, int] = {}
        if is_power_loss:
            certain = disk.sure()
            for key, folder in folders.items():
                found = read_folder(certain, folder, starts.get(key, 0))
                sure[key] = found.end if found.start <= max(logs[key].start, starts.get(key, 0)) else 0
            self._history.power_losses.append(self.life)
        self._history.counts["power losses" if is_power_loss else "kills"] += not self._stopped_cleanly
        death = Death(self._history.now(), is_power_loss, self._stopped_cleanly, logs, sure)
        self._history.life(self.life).deaths.append(death)

    def _read(self, files: Mapping[str, bytes | None], folder: str, key: PartitionId) -> StoredLog:
        gaps = self._history.may_have_gaps(key)
        return read_folder(files, folder, self._history.starts.get(key, 0), gaps=gaps)


class _Doorbell:
    """A network that says when its node begins to serve: the last moment at which nobody can have changed anything."""

    def __init__(self, network: Network, rung: Callable[[], None]) -> None:
        self._network = network
        self._rung = rung
        self.connect = network.connect

    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        gate: Gate | None = None,
        options: SocketOptions = BY_DEFAULT,
    ) -> Listener:
        return _Door(await self._network.listen(factory, host, port, gate, options), self._rung)


class _Door:
    def __init__(self, listener: Listener, rung: Callable[[], None]) -> None:
        self.host = listener.host
        self.port = listener.port
        self.close = listener.close
        self.resume = listener.resume
        self._listener = listener
        self._rung = rung

    async def serve(self) -> None:
        self._rung()
        await self._listener.serve()


class _NeverLate(LoopLag):
    """Time stands still while the simulated loop works: to measure its lag would only cost steps."""

    def start(self) -> None:
        pass


def _format(env: Env, node: SimNode) -> None:
    """As `ottla up` does before a first start, or after one that was cut off."""
    folder, disk, now_ms = node.config.metadata_log_dir, env.disk, env.clock.now_ms()
    meta = meta_properties.load(disk, folder)
    if meta is None:
        disk.make_dirs(folder)
        bootstrap.store(disk, folder, bootstrap_records(), LATEST_METADATA_VERSION, now_ms)
        cluster_id = meta_properties.uuid_text(meta_properties.random_uuid(env.random))
        meta = meta_properties.MetaProperties(cluster_id, node.config.node_id, meta_properties.random_uuid(env.random))
        meta_properties.store(disk, folder, meta, now_ms)
    for other in node.config.log_dirs:
        with suppress(OSError):  # a disk that does not answer: the node starts without it
            if other != folder and meta_properties.load(disk, other) is None:
                disk.make_dirs(other)
                theirs = replace(meta, directory_id=meta_properties.random_uuid(env.random))
                meta_properties.store(disk, other, theirs, now_ms)
