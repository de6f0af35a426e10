"""A node with both roles: opens its folders, replays the metadata, takes its place in the cluster, serves.

The order of starting is the order of trust: first the folders and whose they are, then the metadata log, then the
partitions that it names, then the network. Stopping goes the other way and ends with the mark that all is on disk.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from functools import partial
from typing import Final
from uuid import UUID

from ottla.broker.answer_cache import AnswerCache
from ottla.broker.apis.registry import ALL
from ottla.broker.auto_create import AutoCreate
from ottla.broker.connection_config import connection_limits, idle_check_ms, socket_options
from ottla.broker.directories import Directories
from ottla.broker.dispatch import Dispatcher
from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.group_coordinator import GroupCoordinator, offsets_topic
from ottla.broker.group_history import GroupHistory, history_topic
from ottla.broker.known_partitions import KnownPartitions
from ottla.broker.lag_metrics import LagMetrics
from ottla.broker.log_dirs import OpenedDirs, open_log_dirs
from ottla.broker.moves import Moves
from ottla.broker.node_metrics import NodeMetrics
from ottla.broker.node_state import NodeState
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.replicas import Replicas
from ottla.broker.stalled_commits import StalledCommits
from ottla.broker.status import StatusListener
from ottla.broker.telemetry.telemetry import Telemetry
from ottla.broker.txn_coordinator import TxnCoordinator, transaction_topic
from ottla.broker.txn_partitions import TxnPartitions
from ottla.env.loop_lag import LoopLag
from ottla.env.ports import Env, Listener
from ottla.env.timers import TimerWheel
from ottla.log.log_dir import LogDir
from ottla.log.manager import LogManager, TendingIntervals
from ottla.metadata import bootstrap
from ottla.metadata.controller.config_rules import config_rules
from ottla.metadata.controller.features import SUPPORTED, bootstrap_records
from ottla.metadata.controller.requests import RegisterBroker, UnfenceBroker
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller_port import ControllerPort, MetadataFeed
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.metadata.local_controller import LocalController
from ottla.model.config import BrokerConfig, LogConfig, log_config
from ottla.model.errors import KafkaError, OttlaError
from ottla.model.listeners import Endpoint as ListenerEndpoint
from ottla.model.names import HISTORY_TOPIC, OFFSETS_TOPIC, TRANSACTION_TOPIC, TopicPartition
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.node import RaftNode
from ottla.replica.waiting import WaitingRoom
from ottla.security.authorizer import AllowAll, Authorizer
from ottla.wire.buffers import BufferPool
from ottla.wire.connection_limits import ListenerGate
from ottla.wire.connection_metrics import ConnectionMetrics
from ottla.wire.server import ConnectionSettings, ServerConnection

_log = logging.getLogger("ottla.broker")

_DEFAULT_REQUEST_MEMORY: Final = 32 * 1024 * 1024
_SESSION_EVICTION_MS: Final = 120_000
_STALL_CHECK_MS: Final = 5_000
_DRAIN_SECONDS: Final = 2.0


class Node:
    def __init__(self, env: Env, config: BrokerConfig) -> None:
        self.env = env
        self.dynamic_config = DynamicConfig(config)
        self.authorizer: Authorizer = AllowAll()
        self.cluster_id = ""
        self.broker_epoch = -1
        self.is_registered = False
        self.state: NodeState = NodeState.NOT_RUNNING
        self.loop_lag = LoopLag(env.clock)
        self.failed: asyncio.Future[None] | None = None  # ends with the error that this node cannot go on after
        self.fetch_sessions: FetchSessions = FetchSessions(
            config.max_incremental_fetch_session_cache_slots, _SESSION_EVICTION_MS, env.random.below
        )
        self.metadata_answers = AnswerCache()
        self.dispatcher: Dispatcher = Dispatcher(self, ALL)
        self.telemetry: Telemetry = Telemetry(self)
        self.status = StatusListener(env, self)
        for collector in (NodeMetrics(self), LagMetrics(self), self.dispatcher.metrics, self.loop_lag, self.telemetry):
            env.metrics.add(collector.collect)
        self._listeners: dict[str, Listener] = {}

    # What `start` makes.
    timers: TimerWheel
    waiting: WaitingRoom
    feed: MetadataFeed
    local_controller: LocalController
    controller: ControllerPort  # wherever the active one is
    producer_ids: ProducerIds
    auto_create: AutoCreate
    logs: LogManager
    replicas: Replicas
    directories: Directories
    moves: Moves
    groups: GroupCoordinator
    txns: TxnCoordinator
    txn_partitions: TxnPartitions
    stalled_commits: StalledCommits
    raft: RaftNode
    _metadata_log: MetadataLog
    _connections: ConnectionSettings

    @property
    def config(self) -> BrokerConfig:
        """What holds now: some of it can change while the node runs."""
        return self.dynamic_config.current

    @property
    def image(self) -> MetadataImage:
        return self.feed.image

    @property
    def is_serving(self) -> bool:
        return self.state in (NodeState.RUNNING, NodeState.SHUTTING_DOWN)

    @property
    def has_failed(self) -> bool:
        return self.failed is not None and self.failed.done()

    @property
    def is_active_controller(self) -> bool:
        return self.raft.is_leader

    @property
    def offline_log_dirs(self) -> int:
        return len(self.logs.offline) if self.is_serving else 0

    @property
    def address(self) -> str:
        """Where clients find this node: the first listener, as advertised."""
        endpoint = self._advertised()[0]
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        return f"{host}:{endpoint.port}"

    # -- starting

    async def start(self) -> None:
        self.failed = self.env.loop.create_future()
        self.state = NodeState.STARTING
        if self.config.metrics_listener is not None:
            await self.status.open(*self.config.metrics_listener)
        self.timers = TimerWheel(self.env.loop)
        self.waiting = WaitingRoom(self.timers)
        opened = open_log_dirs(self.env, self.config)
        self.cluster_id = opened.cluster_id
        await self._start_controller()
        await self._listen()
        # From here on nobody leads in an epoch of before the start.
        await self._register(tuple(log_dir.id for log_dir in opened.online))
        self.state = NodeState.RECOVERY
        self._open_logs(opened)
        await self.feed.subscribe(self.replicas.publish)
        await self.feed.subscribe(self.telemetry.publish)
        await self.feed.subscribe(self._look_for_registration)
        self.groups.start(self.image)
        self.txns.start(self.image)
        await self.feed.subscribe(self.groups.publish)
        await self.directories.settle()
        if self.failed.done():
            self.failed.result()
        await self.controller.submit(UnfenceBroker(self.config.node_id, self.broker_epoch))
        for listener in self._listeners.values():
            await listener.serve()
        self.logs.start()
        self.stalled_commits.start()
        self.telemetry.start()
        self.moves.resume()
        self.loop_lag.start()
        self.timers.after(_STALL_CHECK_MS, self._check_stalled)
        self.timers.after(idle_check_ms(self.config.connections_max_idle_ms), self._check_idle)
        self.state = NodeState.RUNNING

    async def _start_controller(self) -> None:
        env, config = self.env, self.config
        self._metadata_log = MetadataLog.open(env, config.metadata_log_dir, _metadata_log_config(config))
        raft = RaftNode(env, self._metadata_log.log.folder, self._metadata_log, config.node_id, (config.node_id,))
        self.raft = raft
        raft.on_failed.append(self._metadata_failed)
        settings = ControllerSettings(
            self.cluster_id,
            env.random,
            config_rules(lambda: self.config),
            config.num_partitions,
            config.default_replication_factor,
            config.get_int("internal.metadata.max.batch.size.in.bytes"),
        )
        records = bootstrap.load(env.disk, config.metadata_log_dir) or bootstrap_records()
        self.controller = self.feed = self.local_controller = LocalController(env, raft, settings, records)
        self.producer_ids = ProducerIds(self.controller, config.node_id, lambda: self.broker_epoch)
        internal = {
            OFFSETS_TOPIC: lambda: offsets_topic(self.config),
            TRANSACTION_TOPIC: lambda: transaction_topic(self.config),
            HISTORY_TOPIC: lambda: history_topic(self.image, self.config),
        }
        self.auto_create = AutoCreate(self.controller, internal)
        self.directories = Directories(self.controller, config.node_id, lambda: self.broker_epoch)
        await self.local_controller.start()
        await self.feed.subscribe(self.dynamic_config.publish)

    def _metadata_failed(self, error: BaseException) -> None:
        """Without its metadata log a node must not serve: what it would acknowledge could not be kept."""
        self._fail(f"{self._metadata_log.log.folder} cannot be written: {error}. Repair the disk, then restart.")

    def _fail(self, message: str) -> None:
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(OttlaError(message))

    def _log_dir_failed(self, log_dir: LogDir) -> None:
        """As Kafka: the others go on, unless there is none, or the metadata lies in this one."""
        if log_dir.path == self.config.metadata_log_dir:
            self._fail(f"{log_dir.path}, where the metadata log lies, has failed: {log_dir.failed}. Repair the disk.")
        elif not self.logs.dirs:
            self._fail(f"all log dirs have failed, {log_dir.path} last: {log_dir.failed}. Repair the disks.")
        else:
            self.env.loop.call_soon(self._give_up, log_dir)

    def _give_up(self, log_dir: LogDir) -> None:
        self.moves.cancel_those_of(log_dir)
        self.replicas.give_up(log_dir)
        self.directories.fail(log_dir.id)

    def _open_logs(self, opened: OpenedDirs) -> None:
        dirs = opened.online
        self.logs = LogManager(
            self.env, self.timers, dirs, _intervals(self.config), self._high_watermark, opened.offline
        )
        self.logs.on_dir_failed = self._log_dir_failed

        checkpointed = {key: offset for log_dir in dirs for key, offset in log_dir.high_watermarks.items()}
        self.replicas = Replicas(
            self.env, self.dynamic_config, self.logs, self.waiting, checkpointed, self.directories.assign
        )
        history = GroupHistory(self.env, self.timers, lambda: self.image, self.auto_create.start)
        self.env.metrics.add(history.collect)
        self.groups = GroupCoordinator(self.env, self.timers, self.dynamic_config, lambda: self.image, history)
        self.txns = TxnCoordinator(self)
        self.txn_partitions = TxnPartitions(self)
        self.logs.have_high_watermarks_moved = self.replicas.have_high_watermarks_moved
        self.replicas.watchers[OFFSETS_TOPIC] = self.groups.runtime.watch
        self.replicas.watchers[TRANSACTION_TOPIC] = self.txns.runtime.watch
        self.replicas.watchers[HISTORY_TOPIC] = history.runtime.watch
        self.stalled_commits = StalledCommits(self.env, self.timers, self.groups, self.replicas)
        self.dynamic_config.on_change(self.replicas.reconfigure)
        self.dynamic_config.on_change(lambda _, now: self.logs.expire_producers_after(now.producer_id_expiration_ms))
        self.dynamic_config.on_change(lambda _, now: self._cordon(now))
        self.moves = Moves(self.env, self.dynamic_config, self.logs, self.replicas, self.directories)
        self.logs.load(KnownPartitions(self.config, self.image, self.logs.folders()))
        self._cordon(self.config)

    def _cordon(self, config: BrokerConfig) -> None:
        before = [log_dir.is_cordoned for log_dir in self.logs.dirs]
        for log_dir in self.logs.dirs:
            log_dir.is_cordoned = config.is_cordoned(log_dir.path)
        if before != [log_dir.is_cordoned for log_dir in self.logs.dirs]:
            self.directories.cordon(tuple(log_dir.id for log_dir in self.logs.dirs if log_dir.is_cordoned))

    def _high_watermark(self, partition: TopicPartition) -> int | None:
        return self.replicas.high_watermark(partition)

    async def _listen(self) -> None:
        config = self.config
        budget = config.queued_max_request_bytes if config.queued_max_request_bytes > 0 else _DEFAULT_REQUEST_MEMORY
        self._connections = ConnectionSettings(
            self.dispatcher, self.env, BufferPool(budget), config.socket_request_max_bytes
        )
        self._connections.on_lost.append(self.telemetry.subscriptions.disconnected)
        self._connections.on_lost.append(lambda connection: self.groups.history.lost(connection, connection.ended))
        self.env.metrics.add(ConnectionMetrics(self._connections).collect)
        limits = self._connections.limits
        limits.configure(await connection_limits(config))
        self.dynamic_config.on_change(self._limit_connections)
        for endpoint in config.listeners.broker:
            await self._open_listener(endpoint)
        self.dynamic_config.on_change(self._change_listeners)

    async def _open_listener(self, endpoint: ListenerEndpoint) -> Listener:
        limits = self._connections.limits
        self._connections.opened.setdefault(endpoint.name, 0)
        try:
            listener = await self.env.network.listen(
                partial(ServerConnection, self._connections, endpoint.name),
                endpoint.host,
                endpoint.port,
                ListenerGate(limits, endpoint.name),
                socket_options(self.config),
            )
        except OSError as error:
            raise OttlaError(f"cannot listen on {endpoint}: {error.strerror or error}") from error
        self._listeners[endpoint.name] = listener
        limits.on_room.append(listener.resume)
        return listener

    async def _change_listeners(self, _: BrokerConfig, now: BrokerConfig) -> None:
        """As in Kafka: names come and go. Another address for the same name counts after a restart."""
        wanted = {endpoint.name: endpoint for endpoint in now.listeners.broker}
        for name in [name for name in self._listeners if name not in wanted]:
            listener = self._listeners.pop(name)
            self._connections.limits.on_room.remove(listener.resume)
            listener.close()
            for connection in [each for each in self._connections.connections if each.listener == name]:
                connection.give_up()
        for name, endpoint in wanted.items():
            if name not in self._listeners:
                try:
                    await (await self._open_listener(endpoint)).serve()
                except OttlaError as error:
                    _log.error(
                        "%s. The other listeners go on; correct `listeners`, or free the port and restart.", error
                    )

    async def _limit_connections(self, _: BrokerConfig, now: BrokerConfig) -> None:
        self._connections.limits.configure(await connection_limits(now))

    def _advertised(self) -> tuple[Endpoint, ...]:
        ports = {name: listener.port for name, listener in self._listeners.items()}
        return tuple(
            Endpoint(endpoint.name, endpoint.host, endpoint.port, endpoint.protocol.value)
            for endpoint in self.config.listeners.advertise(ports, socket.getfqdn)
        )

    async def _register(self, directory_ids: tuple[UUID, ...]) -> None:
        registration = RegisterBroker(
            self.config.node_id,
            self.cluster_id,
            self.env.random.uuid(),
            self._advertised(),
            tuple(SUPPORTED.items()),
            directory_ids,
            self.config.broker_rack,
        )
        try:
            self.broker_epoch = await self.controller.submit(registration)
        except KafkaError as error:
            raise OttlaError(
                f"this node cannot join its cluster: {error}. If Apache Kafka began these folders, it has finalised "
                "features that Ottla does not have yet; give Ottla folders of its own."
            ) from error

    def _look_for_registration(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """As in Kafka, a broker that was unregistered has no place in the cluster until it starts anew."""
        if self.is_registered and self.config.node_id not in image.brokers:
            _log.error(
                "this node was unregistered (UnregisterBroker): it leads nothing and no client is sent to it. "
                "Restart it, then it takes its place again."
            )
        self.is_registered = self.config.node_id in image.brokers

    def _check_idle(self) -> None:
        idle_ms = self.config.connections_max_idle_ms
        if idle_ms >= 0:
            self._connections.close_idle(self.env.loop.time(), idle_ms / 1000)
        self.timers.after(idle_check_ms(idle_ms), self._check_idle)

    def _check_stalled(self) -> None:
        self._connections.close_stalled(self.env.loop.time())
        self.timers.after(_STALL_CHECK_MS, self._check_stalled)

    # -- stopping

    async def stop(self) -> None:
        """Acknowledges what was appended, as far as that does not take long, then makes everything durable."""
        self.state = NodeState.SHUTTING_DOWN
        for listener in self._listeners.values():
            listener.close()
        await self._connections.drain(_DRAIN_SECONDS)
        for connection in list(self._connections.connections):
            connection.give_up()
        await self.dispatcher.stop()
        await self.stalled_commits.stop()
        await self.txn_partitions.stop()
        await self.txns.stop()
        await self.groups.stop()
        await self.auto_create.stop()
        await self.replicas.stop()
        await self.moves.stop()
        await self.directories.stop()
        self.producer_ids.stop()
        self.loop_lag.stop()
        self.timers.close()
        await self.logs.stop(self.broker_epoch)
        await self.local_controller.stop()
        await self._metadata_log.stop()
        self.status.close()
        self.env.executor.close()


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


def _metadata_log_config(config: BrokerConfig) -> LogConfig:
    segment_bytes = config.get("internal.metadata.log.segment.bytes") or config.metadata_log_segment_bytes
    return log_config(
        None,
        {
            "internal.segment.bytes": str(segment_bytes),
            "segment.ms": str(config.metadata_log_segment_ms),
            "retention.ms": "-1",
            "retention.bytes": "-1",
        },
    )
