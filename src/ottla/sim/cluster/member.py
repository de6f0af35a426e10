"""A node of a simulated cluster: formatted like the others, with what it loses and publishes told to the oracle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from ottla.broker.node import Node
from ottla.broker.replicas import Replicas
from ottla.env.ports import Env
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.model.config import broker_config
from ottla.raft.voters import VoterSet
from ottla.replica.partition import Partition
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.cluster.releases import NEWEST, Release
from ottla.sim.disk import SimDisk
from ottla.sim.formatting import format_folders
from ottla.sim.log_files import PartitionId, StoredLog, first_hole, partition_folders, read_folder
from ottla.sim.running import RunningNode
from ottla.sim.world import World

PORT = 9092
CONTROLLER_PORT = 9093
LOG_DIR, MORE, META = "/data", "/more", "/meta"
CLUSTER_ID = "c2ltdWxhdGVkLWNsdXN0ZQ"
_A_MOMENT_S = 0.5  # others are looked at more often than that


class Member(RunningNode):
    def __init__(
        self,
        world: World,
        oracle: Oracle,
        settings: Mapping[str, str],
        voters: VoterSet | None = None,
        release: Release = NEWEST,
    ) -> None:
        config = broker_config(dict(settings))
        super().__init__(world, oracle, config, host_name(config.node_id))
        self.id = config.node_id
        self.is_broker = "broker" in settings["process.roles"]
        self.is_controller = "controller" in settings["process.roles"]
        self.is_starting = True
        self._first_voters = voters if voters is not None and self.id in voters.ids else None
        self.software = release.software
        self._first_features = release.features
        self._oracle = oracle
        self._subscribing: asyncio.Future[None] | None = None
        self.on_metadata: Callable[[Node], None] = lambda node: None
        """Told when it has taken over metadata: before it serves too."""
        self._files: Mapping[str, bytes | None] = {}
        """When it died, until it is known what a loss of power has left of them."""
        self._ends: dict[PartitionId, int] = {}
        self.left: dict[PartitionId, int] = {}
        """Where its logs ended when it died, as far as that could be trusted, until it serves again. What a loss of
        power takes is not known here but to the oracle."""
        self._sizes_left: dict[PartitionId, int] = {}
        self._died_at = -1.0
        self._sizes_seen: dict[PartitionId, tuple[int, int, int]] = {}
        """At the last look: bytes, in which life, and how often the log had been cut in it."""
        self._alive: Node | None = None
        """From the moment it begins: it follows others before it serves."""
        self.host.after_end.append(self._after_end)

    @property
    def is_active_controller(self) -> bool:
        return self.node is not None and self.is_controller and self.node.is_active_controller

    def _format(self, env: Env) -> None:
        self.is_starting = True
        format_folders(env, self.config, CLUSTER_ID, self._first_voters, self._first_features)

    def _began(self, node: Node) -> None:
        self._alive = node

    def _opened(self, node: Node) -> None:
        if replicas_of(node) is not None:  # not when it is the controller's door that opens
            self.left = {}
        if self.is_starting:
            self.is_starting = False
            node.raft.on_snapshot.append(self._loaded_snapshot)
            self._subscribing = asyncio.ensure_future(node.feed.subscribe(partial(self._published, node)))

    def _loaded_snapshot(self, *_: object) -> None:
        self._oracle.counts["snapshot loads"] += 1

    def _published(self, node: Node, delta: MetadataDelta, image: MetadataImage) -> None:
        self._oracle.published(self.id, image)
        self.on_metadata(node)

    def _failed(self, error: Exception) -> None:
        if not self.disk.failures:
            self._oracle.complain(f"node {self.id} ended with {error!r} in its life {self.life}")

    # -- what a loss of power takes

    def _died(self, disk: SimDisk, is_power_loss: bool) -> None:
        self.is_starting = True
        known = ((key, self._replica(key)) for key in self._oracle.partitions)
        sizes = {key: replica.log.size for key, replica in known if replica is not None}
        if sizes:  # else it was dead already, or had not opened its logs yet
            self._sizes_left, self._died_at = sizes, self._oracle.now()
        self._alive = None
        self._files = disk.snapshot()
        logs = self._logs_in(self._files) if is_power_loss or not disk.failures else {}
        self._ends = {key: log.end for key, log in logs.items()}
        self.left = {} if disk.failures else self._ends

    def _after_end(self, disk: SimDisk, is_power_loss: bool) -> None:
        if is_power_loss:
            left = self._ends_of_what_is_left(disk.snapshot())
            cut = {key: left.get(key, 0) for key, end in self._ends.items() if left.get(key, 0) < end}
            self._oracle.lost_power(self.id, cut, self._ends)
        self._files = {}

    def _ends_of_what_is_left(self, files: Mapping[str, bytes | None]) -> dict[PartitionId, int]:
        """Of a compacted log up to the first hole: nobody who reads it can tell that from what was cleaned away."""
        ends = {key: log.end for key, log in self._logs_in(files).items()}
        for key, folder in self._folders_in(files).items():
            if self._oracle.is_compacted(key):
                ends[key] = min(ends[key], first_hole(self._files, files, folder))
        return ends

    def replace_disk(self) -> None:
        """The machine is switched off and gets a new, empty disk."""
        self.host.replace_disk()
        self.left = {}
        self._first_voters = None  # it comes back as another replica
        self._oracle.replaces_disk(self.id)

    # -- its files

    def log_end(self, partition: PartitionId) -> int | None:
        """As the living node has it, who follows and may be in sync before he serves; else as he left it."""
        replica = self._replica(partition)
        return replica.log.end_offset if replica is not None else self.left.get(partition)

    def log_size(self, partition: PartitionId) -> int:
        """When it last gave something up, or somebody else heard of it: now; or when it died, if it is not back or that
        was a moment ago; or at the last look, if it was cut since."""
        replica = self._replica(partition)
        size = replica.log.size if replica is not None else 0
        if self.is_starting or self._oracle.now() - self._died_at < _A_MOMENT_S:
            size = max(size, self._sizes_left.get(partition, 0))
        if replica is not None and partition in self._sizes_seen:
            seen, life, cuts = self._sizes_seen[partition]
            if (life, cuts) != (self.life, replica.log.cuts):
                size = max(size, seen)
        return size

    def remember_sizes(self) -> None:
        """After a look at all nodes. What is given up goes by all that a log has, also by what no other replica has and
        is cut off again before the next look."""
        known = ((key, self._replica(key)) for key in self._oracle.partitions)
        self._sizes_seen = {
            key: (replica.log.size, self.life, replica.log.cuts) for key, replica in known if replica is not None
        }

    def _replica(self, partition: PartitionId) -> Partition | None:
        """Of the living node."""
        replicas = replicas_of(self._alive) if self._alive is not None else None
        return replicas.by_id.get(partition) if replicas is not None else None

    def stored_logs(self) -> dict[PartitionId, StoredLog]:
        return self._logs_in(self.disk.snapshot())

    def _logs_in(self, files: Mapping[str, bytes | None]) -> dict[PartitionId, StoredLog]:
        return {
            key: read_folder(files, folder, gaps=self._oracle.is_compacted(key))
            for key, folder in self._folders_in(files).items()
        }

    def _folders_in(self, files: Mapping[str, bytes | None]) -> dict[PartitionId, str]:
        return {
            key: folder for log_dir in self.config.log_dirs for key, folder in partition_folders(files, log_dir).items()
        }


def replicas_of(node: Node) -> Replicas | None:
    """None as long as it has not opened its logs."""
    replicas: Replicas | None = vars(node).get("replicas")
    return replicas


def host_name(node_id: int) -> str:
    return f"n{node_id}"
