"""A single node with its lives noted: what lay on its disk when each of them began to serve, and when it ended."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.node import Node
from ottla.env.ports import Env
from ottla.model.config import broker_config, standalone
from ottla.sim.disk import SimDisk
from ottla.sim.formatting import format_folders
from ottla.sim.history import Death, History, Opened
from ottla.sim.log_files import PartitionId, StoredLog, partition_folders, read_folder
from ottla.sim.running import RunningNode
from ottla.sim.world import World

PORT = 9092
LOG_DIR = "/data"


class SimNode(RunningNode):
    def __init__(self, world: World, history: History, settings: Mapping[str, str], name: str = "node") -> None:
        super().__init__(world, history, broker_config(standalone(LOG_DIR, PORT, name) | dict(settings)), name)
        self._history = history

    def _failed(self, error: Exception) -> None:
        if not self.disk.failures:
            self._history.complain(f"the node of life {self.life} ended with {error!r} although its disk is sound")

    # -- what the oracle looks at

    def _opened(self, node: Node) -> None:
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

    def _died(self, disk: SimDisk, is_power_loss: bool) -> None:
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
        death = Death(self._history.now(), is_power_loss, self.stopped_cleanly, logs, sure)
        self._history.life(self.life).deaths.append(death)

    def _read(self, files: Mapping[str, bytes | None], folder: str, key: PartitionId) -> StoredLog:
        gaps = self._history.may_have_gaps(key)
        return read_folder(files, folder, self._history.starts.get(key, 0), gaps=gaps)

    def _format(self, env: Env) -> None:
        """As `ottla up` does."""
        format_folders(env, self.config)
