"""What a node with the broker's role has beyond the metadata: its partitions, its coordinators, its clients.

Everything here becomes an attribute of the node, where the APIs look for it.
"""

from __future__ import annotations

import logging
import socket
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.apis.registry import ALL
from ottla.broker.auto_create import AutoCreate
from ottla.broker.directories import Directories
from ottla.broker.dispatch import Dispatcher
from ottla.broker.fallen_silent import FallenSilent
from ottla.broker.group_coordinator import GroupCoordinator, offsets_topic
from ottla.broker.known_partitions import KnownPartitions
from ottla.broker.lifecycle import Lifecycle, StartGivenUp, lifecycle_settings
from ottla.broker.listening import Listening
from ottla.broker.log_dirs import OpenedDirs
from ottla.broker.moves import Moves
from ottla.broker.node_state import NodeState
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.registration import OwnRegistration, registration_of
from ottla.broker.replicas import Replicas
from ottla.broker.stalled_commits import StalledCommits
from ottla.broker.tier.settings import has_tier, metadata_topic
from ottla.broker.txn_coordinator import TxnCoordinator, transaction_topic
from ottla.broker.txn_partitions import TxnPartitions
from ottla.log.cleaning.cleaner import CleanerSettings, LogCleaner
from ottla.log.log_dir import LogDir
from ottla.log.manager import LogManager, TendingIntervals
from ottla.metadata.image import Endpoint, MetadataImage, ResourceType
from ottla.model.config import BrokerConfig
from ottla.model.names import HISTORY_TOPIC, OFFSETS_TOPIC, REMOTE_METADATA_TOPIC, TRANSACTION_TOPIC, TopicPartition
from ottla.wire.buffers import BufferPool

if TYPE_CHECKING:
    from ottla.broker.group_history import GroupHistory
    from ottla.broker.node import Node
    from ottla.broker.tier.manager import TierManager
    from ottla.metadata.controller.requests import NewTopic
    from ottla.wire.server import ServerConnection

_log = logging.getLogger("ottla.broker")


class BrokerPart:
    def __init__(self, node: Node, opened: OpenedDirs, pool: BufferPool) -> None:
        self._node = node
        self._opened = opened
        self.listening = node.listening = Listening(node, node.dispatcher, pool)
        controller = node.controller
        node.producer_ids = ProducerIds(controller, node.config.node_id, lambda: node.broker_epoch)
        internal = {
            OFFSETS_TOPIC: lambda: offsets_topic(node.config),
            TRANSACTION_TOPIC: lambda: transaction_topic(node.config),
            HISTORY_TOPIC: self._history_topic,
        }
        if has_tier(node.config):
            internal[REMOTE_METADATA_TOPIC] = lambda: metadata_topic(node.config)
        node.fallen_silent = FallenSilent(node.env, lambda: node.config.broker_session_timeout_ms)
        node.auto_create = AutoCreate(controller, internal)

    lifecycle: Lifecycle

    @property
    def advertised(self) -> tuple[Endpoint, ...]:
        return tuple(
            Endpoint(endpoint.name, endpoint.host, endpoint.port, endpoint.protocol.value)
            for endpoint in self._node.config.listeners.advertise(self.listening.ports, socket.getfqdn)
        )

    async def start(self) -> None:
        node = self._node
        await self._listen()
        try:
            await self._register()
        except StartGivenUp:
            await self._take_back()
            raise
        self._open_logs()
        await node.feed.subscribe(node.fallen_silent.publish)
        await node.feed.subscribe(node.replicas.publish)
        await node.feed.subscribe(node.telemetry.publish)
        registration = OwnRegistration(node, self.lifecycle)
        await node.feed.subscribe(registration.publish)
        node.groups.start(node.image)
        node.txns.start(node.image)
        await node.feed.subscribe(node.groups.publish)
        await node.directories.settle()
        node.raise_failure()
        await self.lifecycle.unfenced()
        await registration.unfenced()
        await self.listening.serve()
        node.logs.start()
        if node.tier is not None:
            await node.tier.start()
        else:
            _tell_of_topics_without_tier(node.image)
        node.stalled_commits.start()
        node.telemetry.start()
        node.moves.resume()

    async def _register(self) -> None:
        """From here on nobody leads in an epoch of before the start."""
        node = self._node
        registration = registration_of(node, self.advertised, self._opened)
        self.lifecycle = lifecycle = Lifecycle(
            node.env, node.controller, lifecycle_settings(node.config), registration, lambda: node.image.offset
        )
        lifecycle.on_state = self._be
        lifecycle.on_failed = node.fail
        node.directories = Directories(
            node.controller, node.config.node_id, lambda: node.broker_epoch, lifecycle.fail_directories
        )
        node.on_give_up.append(lifecycle.give_up)
        node.broker_epoch = await lifecycle.register()
        await lifecycle.caught_up()

    async def _take_back(self) -> None:
        """What was begun before the logs: the node goes as one without a broker."""
        await self.lifecycle.stop()
        await self.listening.stop()
        self._node.broker = None

    def _be(self, state: NodeState) -> None:
        if state is not NodeState.RUNNING:  # which it is when clients are served
            self._node.state = state

    async def leave(self) -> None:
        """Leaders go elsewhere first, if there is another broker to go to."""
        node = self._node
        others = [broker for broker in node.image.brokers.values() if broker.id != node.config.node_id]
        if node.config.get("controlled.shutdown.enable") and any(not broker.fenced for broker in others):
            await self.lifecycle.leave()

    async def stop(self) -> None:
        node = self._node
        await self.lifecycle.stop()
        await self.listening.stop()
        await node.dispatcher.stop()
        if node.tier is not None:
            await node.tier.stop()
        await node.stalled_commits.stop()
        await node.txn_partitions.stop()
        await node.txns.stop()
        await node.groups.stop()
        await node.auto_create.stop()
        await node.replicas.stop()
        await node.moves.stop()
        await node.directories.stop()
        node.producer_ids.stop()

    async def stop_logs(self) -> None:
        """When nothing more happens to them."""
        await self._node.logs.stop(self._node.broker_epoch)

    async def _listen(self) -> None:
        node = self._node
        connections = self.listening.connections
        connections.on_lost.append(node.telemetry.subscriptions.disconnected)
        connections.on_lost.append(self._lost)
        await self.listening.open(node.config.listeners.broker)
        node.dynamic_config.on_change(self._change_listeners)

    def _lost(self, connection: ServerConnection) -> None:
        if (history := self._node.groups.history_so_far) is not None:
            history.lost(connection, connection.ended)

    def _stood_still(self, seconds: float) -> None:
        if (history := self._node.groups.history_so_far) is not None:
            history.stood_still(seconds)

    def _history_topic(self) -> NewTopic:
        from ottla.broker.group_history_place import history_topic

        return history_topic(self._node.image, self._node.config)

    def _new_history(self) -> GroupHistory:
        from ottla.broker.group_history import GroupHistory
        from ottla.broker.group_history_place import HistoryPlace

        node = self._node
        place = HistoryPlace(node.controller, node.config.node_id, lambda: node.image, node.auto_create.start)
        return GroupHistory(node.env, node.timers, lambda: node.image, place)

    async def _change_listeners(self, _: BrokerConfig, now: BrokerConfig) -> None:
        await self.listening.change_to(now.listeners.broker)

    def _open_logs(self) -> None:
        node, opened = self._node, self._opened
        env, timers, config = node.env, node.timers, node.dynamic_config
        node.logs = LogManager(
            env, timers, opened.online, _intervals(node.config), self._high_watermark, opened.offline
        )
        node.logs.on_dir_failed = self._log_dir_failed
        node.logs.cleaner = cleaner = LogCleaner(env, timers, node.logs, lambda: _cleaner_settings(config.current))
        env.metrics.add(cleaner.state.collect)
        env.metrics.add(lambda: cleaner.state.collect_uncleanable([log_dir.path for log_dir in node.logs.dirs]))
        checkpointed = {key: offset for log_dir in opened.online for key, offset in log_dir.high_watermarks.items()}
        node.replicas = Replicas(env, config, node.logs, node.waiting, checkpointed, node.directories.assign)
        node.replicas.replicate(timers, node.controller, lambda: node.broker_epoch)
        node.groups = GroupCoordinator(env, timers, config, lambda: node.image, self._new_history)
        env.metrics.add(node.groups.collect)
        node.loop_lag.on_standstill.append(self._stood_still)
        node.txns = TxnCoordinator(node)
        node.txn_partitions = TxnPartitions(node)
        node.logs.have_high_watermarks_moved = node.replicas.have_high_watermarks_moved
        node.replicas.watchers[OFFSETS_TOPIC] = node.groups.runtime.watch
        node.replicas.watchers[TRANSACTION_TOPIC] = node.txns.runtime.watch
        node.replicas.watchers[HISTORY_TOPIC] = lambda partition: node.groups.history.runtime.watch(partition)
        node.stalled_commits = StalledCommits(env, timers, node.groups, node.replicas)
        config.on_change(node.replicas.reconfigure)
        config.on_change(lambda _, now: node.logs.expire_producers_after(now.producer_id_expiration_ms))
        config.on_change(partial(_limit_cleaning, cleaner))
        config.on_change(lambda _, now: self._cordon(now))
        node.moves = Moves(env, config, node.logs, node.replicas, node.directories)
        node.tier = open_tier(node)
        node.logs.load(KnownPartitions(node.config, node.image, node.logs.folders()))
        self._cordon(node.config)

    def _cordon(self, config: BrokerConfig) -> None:
        dirs = self._node.logs.dirs
        before = [log_dir.is_cordoned for log_dir in dirs]
        for log_dir in dirs:
            log_dir.is_cordoned = config.is_cordoned(log_dir.path)
        if before != [log_dir.is_cordoned for log_dir in dirs]:
            self.lifecycle.cordon(tuple(log_dir.id for log_dir in dirs if log_dir.is_cordoned))

    def _high_watermark(self, partition: TopicPartition) -> int | None:
        return self._node.replicas.high_watermark(partition)

    def _log_dir_failed(self, log_dir: LogDir) -> None:
        """As Kafka: the others go on, unless there is none, or the metadata lies in this one."""
        node = self._node
        if log_dir.path == node.config.metadata_log_dir:
            node.fail(f"{log_dir.path}, where the metadata log lies, has failed: {log_dir.failed}. Repair the disk.")
        elif not node.logs.dirs:
            node.fail(f"all log dirs have failed, {log_dir.path} last: {log_dir.failed}. Repair the disks.")
        else:
            node.env.loop.call_soon(self._give_up, log_dir)

    def _give_up(self, log_dir: LogDir) -> None:
        self._node.moves.cancel_those_of(log_dir)
        self._node.replicas.give_up(log_dir)
        self._node.directories.fail(log_dir.id)


def open_tier(node: Node) -> TierManager | None:
    """Its code is loaded by nodes that have one."""
    if not has_tier(node.config):
        return None
    from ottla.broker.tier.manager import TierManager

    metadata_topic(node.config)  # what cannot be is told now, and not when the first topic needs it
    return TierManager(node)


def _tell_of_topics_without_tier(image: MetadataImage) -> None:
    topics = sorted(
        resource.name
        for resource, configs in image.configs.items()
        if resource.type == ResourceType.TOPIC and configs.get("remote.storage.enable", "").strip().lower() == "true"
    )
    if topics:
        _log.error(
            "remote.storage.enable is on for %s, and this node has no remote tier: what is there cannot be read, and "
            "nothing leaves the disk. Set remote.log.storage.system.enable.",
            ", ".join(topics[:3]) + (f" and {len(topics) - 3} others" if len(topics) > 3 else ""),
        )


def new_dispatcher(node: Node) -> Dispatcher:
    return Dispatcher(node, node.software.offered(ALL))


def _limit_cleaning(cleaner: LogCleaner, before: BrokerConfig, now: BrokerConfig) -> None:
    if _cleaner_settings(before) != _cleaner_settings(now):
        cleaner.reconfigure()


def _cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    return CleanerSettings(
        enabled=bool(config.get("log.cleaner.enable")),
        threads=config.get_int("log.cleaner.threads"),
        dedupe_bytes=config.get_int("log.cleaner.dedupe.buffer.size"),
        load_factor=config.get_float("log.cleaner.io.buffer.load.factor"),
        io_bytes=config.get_int("log.cleaner.io.buffer.size"),
        io_bytes_per_second=config.get_float("log.cleaner.io.max.bytes.per.second"),
        backoff_ms=config.get_int("log.cleaner.backoff.ms"),
    )


def _intervals(config: BrokerConfig) -> TendingIntervals:
    return TendingIntervals(
        retention_check_ms=config.log_retention_check_interval_ms,
        checkpoint_ms=config.log_flush_offset_checkpoint_interval_ms,
        start_offset_checkpoint_ms=config.log_flush_start_offset_checkpoint_interval_ms,
        high_watermark_checkpoint_ms=config.replica_high_watermark_checkpoint_interval_ms,
        producer_expiration_check_ms=config.producer_id_expiration_check_interval_ms,
        producer_expiration_ms=config.producer_id_expiration_ms,
        initial_delay_ms=config.log_initial_task_delay_ms,
    )
