"""A node: opens its folders, takes part in the metadata quorum, takes its place in the cluster, serves.

Every node follows the metadata (quorum_part.py). With the role `controller` it votes and may become the active
controller, and others reach it by a listener of its own (controller_listener.py). With the role `broker` it has
partitions and clients (broker_part.py).

The order of starting is the order of trust: first the folders and whose they are, then the metadata, then the
partitions that it names, then the clients. Stopping goes the other way and ends with the mark that all is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.answer_cache import AnswerCache
from ottla.broker.auto_create import AutoCreate
from ottla.broker.broker_part import BrokerPart, new_dispatcher
from ottla.broker.controller_channel import ControllerChannel, channel_settings
from ottla.broker.controller_listener import ControllerListener
from ottla.broker.controller_metrics import ControllerMetrics
from ottla.broker.controller_registration import ControllerRegistration
from ottla.broker.directories import Directories
from ottla.broker.dispatch import Dispatcher
from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.fallen_silent import FallenSilent
from ottla.broker.fetch_sessions import FetchSessions
from ottla.broker.forwarding import Forwarding
from ottla.broker.group_coordinator import GroupCoordinator
from ottla.broker.lag_metrics import LagMetrics
from ottla.broker.lifecycle import StartGivenUp
from ottla.broker.listening import Listening
from ottla.broker.log_dirs import OpenedDirs, open_log_dirs
from ottla.broker.moves import Moves
from ottla.broker.node_metrics import NodeMetrics
from ottla.broker.node_state import NodeState
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.quorum_metrics import QuorumMetrics
from ottla.broker.quorum_part import QuorumPart
from ottla.broker.replicas import Replicas
from ottla.broker.request_metrics import RequestMetrics, RequestsOfAll
from ottla.broker.software import THIS, Software
from ottla.broker.stalled_commits import StalledCommits
from ottla.broker.status import StatusListener
from ottla.broker.telemetry.telemetry import Telemetry
from ottla.broker.txn_coordinator import TxnCoordinator
from ottla.broker.txn_metrics import TxnMetrics
from ottla.broker.txn_partitions import TxnPartitions
from ottla.env.loop_lag import LoopLag
from ottla.env.ports import Env
from ottla.env.timers import TimerWheel
from ottla.log.manager import LogManager
from ottla.metadata.feed import MetadataFeed
from ottla.metadata.image import MetadataImage
from ottla.metadata.local_controller import LocalController
from ottla.model.config import BrokerConfig
from ottla.model.errors import OttlaError
from ottla.raft.node import RaftNode
from ottla.replica.waiting import WaitingRoom
from ottla.security.authorizer import AllowAll, Authorizer
from ottla.wire.buffers import BufferPool
from ottla.wire.connection_metrics import ConnectionMetrics

if TYPE_CHECKING:
    from ottla.broker.tier.manager import TierManager

_DEFAULT_REQUEST_MEMORY: Final = 32 * 1024 * 1024
_SESSION_EVICTION_MS: Final = 120_000


class Node:
    def __init__(self, env: Env, config: BrokerConfig, software: Software = THIS) -> None:
        self.env = env
        self.software = software
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
        self.dispatcher: Dispatcher = new_dispatcher(self)
        self.telemetry: Telemetry = Telemetry(self)
        self.status = StatusListener(env, self)
        for collector in (
            NodeMetrics(self),
            QuorumMetrics(self),
            TxnMetrics(self),
            ControllerMetrics(self),
            LagMetrics(self),
            RequestsOfAll(self._request_metrics),
            self.loop_lag,
            self.telemetry,
        ):
            env.metrics.add(collector.collect)
        self.controller_listener: ControllerListener | None = None
        self._registration: ControllerRegistration | None = None
        self.broker: BrokerPart | None = None
        self._gives_up = asyncio.Event()
        self.on_give_up: list[Callable[[], None]] = []

    # What `start` makes in a node of any role.
    timers: TimerWheel
    waiting: WaitingRoom
    quorum: QuorumPart
    raft: RaftNode
    feed: MetadataFeed
    local_controller: LocalController
    controller: ControllerChannel  # wherever the active one is
    forwarding: Forwarding
    _opened: OpenedDirs

    # And in a broker.
    listening: Listening
    producer_ids: ProducerIds
    auto_create: AutoCreate
    fallen_silent: FallenSilent
    logs: LogManager
    replicas: Replicas
    directories: Directories
    moves: Moves
    groups: GroupCoordinator
    txns: TxnCoordinator
    txn_partitions: TxnPartitions
    stalled_commits: StalledCommits
    tier: TierManager | None

    @property
    def config(self) -> BrokerConfig:
        """What holds now: some of it can change while the node runs."""
        return self.dynamic_config.current

    @property
    def image(self) -> MetadataImage:
        return self.feed.image

    @property
    def is_serving(self) -> bool:
        return self.state in (NodeState.RUNNING, NodeState.PENDING_CONTROLLED_SHUTDOWN, NodeState.SHUTTING_DOWN)

    @property
    def has_failed(self) -> bool:
        return self.failed is not None and self.failed.done()

    @property
    def is_active_controller(self) -> bool:
        return self.local_controller.is_active

    @property
    def offline_log_dirs(self) -> int:
        return len(self.logs.offline) if self.is_serving and self.broker is not None else 0

    @property
    def address(self) -> str:
        """Where others find this node: the first listener for clients, as advertised; else the controller's."""
        if self.broker is not None:
            endpoint = self.broker.advertised[0]
        else:
            assert self.controller_listener is not None
            endpoint = self.controller_listener.advertised[0]
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        return f"{host}:{endpoint.port}"

    def fail(self, message: str) -> None:
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(OttlaError(message))

    def raise_failure(self) -> None:
        if self.failed is not None and self.failed.done():
            self.failed.result()

    # -- starting

    async def start(self) -> None:
        self.failed = self.env.loop.create_future()
        self.state = NodeState.STARTING
        if self.config.metrics_listener is not None:
            await self.status.open(*self.config.metrics_listener)
        self.timers = TimerWheel(self.env.loop)
        self.waiting = WaitingRoom(self.timers)
        self._opened = opened = open_log_dirs(self.env, self.config)
        self.cluster_id = opened.cluster_id
        pool = BufferPool(self._request_memory())
        await self._start_quorum(opened, pool)
        await self.feed.subscribe(self.dynamic_config.publish)
        if self._gives_up.is_set():
            raise StartGivenUp
        if self.config.is_broker:
            self.broker = BrokerPart(self, opened, pool)
            self._add_connection_metrics()
            await self.broker.start()
        else:
            self._add_connection_metrics()
        self.loop_lag.start()
        self.state = NodeState.RUNNING

    async def _start_quorum(self, opened: OpenedDirs, pool: BufferPool) -> None:
        config = self.config
        if config.is_controller and config.listeners.controller:
            self.controller_listener = ControllerListener(self, pool)
            await self.controller_listener.open()
        endpoints = self.controller_listener.endpoints if self.controller_listener else ()
        about = self.cluster_id, opened.metadata_directory_id, endpoints
        self.quorum = QuorumPart(self.env, lambda: self.config, *about, self.fail, self.software)
        self.raft, self.feed = self.quorum.raft, self.quorum.feed
        self.local_controller = self.quorum.controller
        self.controller = ControllerChannel(
            self.env, channel_settings(config), lambda: self.raft.leader, self.local_controller
        )
        self.forwarding = Forwarding(self.controller)
        self.raft.on_leader.append(lambda *_: self.controller.leader_changed())
        self.local_controller.on_active.append(self.controller.leader_changed)
        await self.quorum.start()
        if self.controller_listener is not None:
            await self.controller_listener.watch()
            await self.controller_listener.serve()
        await self._until_caught_up()
        if self.controller_listener is not None:
            self._registration = ControllerRegistration(self, self.controller_listener.advertised)
            self._registration.start()

    async def _until_caught_up(self) -> None:
        """Nobody serves by metadata of yesterday. As in Kafka, a broker's patience ends, a controller's does not."""
        limit_ms = self.config.get_int("initial.broker.registration.timeout.ms")
        limit = limit_ms / 1000 if self.config.is_broker else None
        assert self.failed is not None
        waiting: list[asyncio.Future[Any]] = [
            self.env.loop.create_task(self.quorum.caught_up()),
            self.env.loop.create_task(self._gives_up.wait()),
        ]
        caught_up, given_up = waiting
        try:
            await asyncio.wait([*waiting, self.failed], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            self.raise_failure()
            if given_up.done():
                raise StartGivenUp
            if not caught_up.done():
                raise OttlaError(
                    f"no leader of the metadata quorum was found within {limit_ms} ms "
                    "(initial.broker.registration.timeout.ms). Are the controllers running, and do "
                    "controller.quorum.voters or controller.quorum.bootstrap.servers name them?"
                )
            caught_up.result()
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def give_up_start(self) -> None:
        """A start that waits for others ends with StartGivenUp; any other goes on to its end."""
        self._gives_up.set()
        for give_up in self.on_give_up:
            give_up()

    def _request_memory(self) -> int:
        given = self.config.queued_max_request_bytes
        return given if given > 0 else _DEFAULT_REQUEST_MEMORY

    def _request_metrics(self) -> list[RequestMetrics]:
        """Of both roles: what controllers are asked is told with `role`."""
        listener = self.controller_listener
        return [self.dispatcher.metrics] + ([listener.dispatcher.metrics] if listener is not None else [])

    def _add_connection_metrics(self) -> None:
        roles = [self.broker, self.controller_listener]
        self.env.metrics.add(ConnectionMetrics([role.listening.connections for role in roles if role]).collect)

    # -- stopping

    async def stop(self) -> None:
        """Acknowledges what was appended, as far as that does not take long, then makes everything durable."""
        if self.broker is not None:
            await self.broker.leave()
        self.state = NodeState.SHUTTING_DOWN
        if self.broker is not None:
            await self.broker.stop()
        self.loop_lag.stop()
        self.timers.close()
        if self.broker is not None:
            await self.broker.stop_logs()
        if self._registration is not None:
            await self._registration.stop()
        await self.controller.stop()
        await self.quorum.stop()
        if self.controller_listener is not None:
            await self.controller_listener.stop()
        await self.quorum.close_log()
        if self.broker is None:
            for log_dir in self._opened.online:
                log_dir.unlock()
        self.status.close()
        self.env.executor.close()
