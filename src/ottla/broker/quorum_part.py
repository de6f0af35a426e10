"""The metadata in a node of any role: its log, the quorum that keeps it, the feed, and the controller on top.

A broker without the controller's role has a replica that only observes; its controller never becomes active.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

from ottla.broker.controller_settings import controller_settings
from ottla.env.ports import Env
from ottla.metadata import bootstrap
from ottla.metadata.controller.features import bootstrap_records
from ottla.metadata.feed import MetadataFeed
from ottla.metadata.local_controller import LocalController
from ottla.metadata.snapshots import Snapshots, SnapshotSettings
from ottla.model.config import BrokerConfig, LogConfig, log_config
from ottla.model.errors import OttlaError
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.network_peers import NetworkPeers
from ottla.raft.node import RaftNode
from ottla.raft.quorum_config import company, listener_name
from ottla.raft.retention import Retention
from ottla.raft.snapshot_store import SnapshotStore
from ottla.raft.voters import Endpoint

_log = logging.getLogger("ottla.broker")
_TELL_AFTER_S = 10.0
_LOOK_EVERY_S = 0.25


class QuorumPart:
    """`config` gives what holds now; `endpoints` are where this node's controller can be reached."""

    def __init__(
        self,
        env: Env,
        config: Callable[[], BrokerConfig],
        cluster_id: str,
        directory_id: UUID,
        endpoints: tuple[Endpoint, ...],
        on_failed: Callable[[str], None],
    ) -> None:
        at_start = config()
        self._env = env
        self._on_failed = on_failed
        self.log = MetadataLog.open(env, at_start.metadata_log_dir, _metadata_log_config(at_start))
        self.snapshots = SnapshotStore(env.disk, self.log.log.folder)
        self.snapshots.recover(self.log.start_offset)
        self._peers = NetworkPeers(
            env,
            listener_name(at_start),
            f"raft-client-{at_start.node_id}",
            at_start.get_int("controller.quorum.request.timeout.ms"),
        )
        members = company(at_start, cluster_id, directory_id, endpoints, self.snapshots, self._peers)
        self.raft = RaftNode(env, self.log.log.folder, self.log, at_start.node_id, (), company=members)
        self.raft.on_failed.append(self._log_failed)
        self.feed = MetadataFeed(env, self.raft)
        self.feed.on_failed.append(lambda error: on_failed(f"the metadata cannot be followed: {error}"))
        self.snapshot_taking = Snapshots(env, self.raft, self.feed, _snapshot_settings(at_start))
        settings = replace(controller_settings(env, cluster_id, config), quorum=self.raft)
        first = bootstrap.load(env.disk, at_start.metadata_log_dir) or bootstrap_records()
        self.controller = LocalController(env, self.raft, self.feed, settings, first)

    async def start(self) -> None:
        """A quorum of one elects itself here. Others must be reachable for theirs: see `caught_up`."""
        await self.feed.start()
        self.controller.start()
        self.snapshot_taking.start()
        await self.raft.start()

    async def caught_up(self) -> None:
        """Until a leader has told how far the metadata is committed, and all of that is known here."""
        news = asyncio.Event()

        def hear(*_: object) -> None:
            news.set()

        listeners = (self.raft.on_committed, self.raft.on_leader, self.controller.on_active)
        for listener in listeners:
            listener.append(hear)
        telling = self._env.loop.call_later(_TELL_AFTER_S, self._tell_of_waiting)
        try:
            while self.raft.leader_high_watermark < 0 or (self.raft.is_leader and not self.controller.is_active):
                with suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), _LOOK_EVERY_S)
                news.clear()
                if (reason := self.raft.why_not()) is not None:
                    raise OttlaError(f"this node cannot join its quorum: {reason}")
            await self.feed.reached(self.raft.leader_high_watermark - 1)
        finally:
            telling.cancel()
            for listener in listeners:
                listener.remove(hear)

    async def stop(self) -> None:
        """A leader hands over to another. Its listener answers until then."""
        await self.raft.stop()
        await self.controller.stop()
        await self.snapshot_taking.stop()
        await self.feed.stop()
        await self._peers.close()

    async def close_log(self) -> None:
        await self.log.stop()

    def _tell_of_waiting(self) -> None:
        voters = self.raft.quorum.voters
        _log.warning(
            "this node still waits for the metadata quorum: of the voters %s a majority must run and be reachable "
            "(known leader: %d, epoch %d)",
            voters,
            self.raft.leader_id,
            self.raft.epoch,
        )

    def _log_failed(self, error: BaseException) -> None:
        """Without its metadata log a node must not serve: what it would acknowledge could not be kept."""
        self._on_failed(_why(error, self.log.log.folder))


def _why(error: BaseException, folder: str) -> str:
    if isinstance(error, OSError):
        return f"{folder} cannot be written: {error}. Repair the disk, then restart."
    if isinstance(error, OttlaError):
        return str(error)
    return f"the metadata quorum failed in this node, which is a bug: {error!r}. The log has more; restart the node."


def _snapshot_settings(config: BrokerConfig) -> SnapshotSettings:
    return SnapshotSettings(
        config.metadata_log_max_record_bytes_between_snapshots,
        config.metadata_log_max_snapshot_interval_ms,
        Retention(config.metadata_max_retention_bytes, config.metadata_max_retention_ms),
        config.get_int("internal.metadata.delete.delay.millis"),
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
