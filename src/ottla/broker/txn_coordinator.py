"""The transaction coordinator of this node: which partition of `__transaction_state` an id lives in; who asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.txn_markers import ShardMarkers, TxnMarkers
from ottla.coordinator.group.hashing import group_hash
from ottla.coordinator.machine import Outcome
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.shard import Haste, Shard
from ottla.coordinator.told import Told
from ottla.metadata.controller.features import TRANSACTION_VERSION
from ottla.metadata.controller.requests import NewTopic
from ottla.metadata.image import MetadataImage
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import TRANSACTION_TOPIC

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.coordinator.txn.machine import Settings, TxnMachine

R = TypeVar("R")


class TxnCoordinator:
    """Asked with a transactional id; KafkaError with what Kafka tells who came too early or to the wrong node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._partitions = 0  # of the topic, once that is known
        self.markers = TxnMarkers(node)
        self.runtime: Runtime[TxnMachine] = Runtime(
            node.env, node.timers, self._make, node.config.request_timeout_ms
        )  # fmt: skip

    def _make(self, shard: Shard[TxnMachine]) -> TxnMachine:
        from ottla.coordinator.txn.machine import Surroundings, TxnMachine  # with the first: a node starts without

        node = self._node
        return TxnMachine(
            shard.timeline,
            Surroundings(
                shard,
                ShardMarkers(shard, self.markers, node.env.loop),
                node.env.clock.now_ms,
                node.producer_ids.take,
                lambda: node.image.features.get(TRANSACTION_VERSION, 0),
                lambda: _settings(node.config),
                shard.epoch,
            ),
        )

    def start(self, image: MetadataImage) -> None:
        """As in Kafka, partitions that are added to the topic later count only after a restart."""
        topic = image.topic(TRANSACTION_TOPIC)
        configured = self._node.config.get_int("transaction.state.log.num.partitions")
        self._partitions = len(topic.partitions) if topic is not None else configured

    async def stop(self) -> None:
        await self.markers.stop()
        await self.runtime.stop()
        self._partitions = 0

    # -- asking

    def partition_of(self, transactional_id: str) -> int:
        if self._partitions == 0:
            raise KafkaError(ErrorCode.coordinator_not_available, "the transaction coordinator does not run")
        return group_hash(transactional_id) % self._partitions

    def number_of(self, transactional_id: str) -> int:
        """The same; -1 while it is not known."""
        return group_hash(transactional_id) % self._partitions if self._partitions else -1

    def submit(self, transactional_id: str, operation: Callable[[TxnMachine], Outcome[R]]) -> asyncio.Future[R]:
        """What the operation replied, or the KafkaError that kept it from doing so; nothing is raised here."""
        try:
            return self.runtime.shard(self.partition_of(transactional_id)).write(operation)
        except KafkaError as error:
            failed: asyncio.Future[R] = self._node.env.loop.create_future()
            failed.set_exception(error)
            failed.exception()  # it may never be asked for, if the client has gone
            return failed

    def ask(
        self, transactional_id: str, operation: Callable[[TxnMachine], Outcome[R]], haste: Haste = Haste.THIS_TURN
    ) -> Told[R]:
        """The same for who does not wait in a task."""
        told: Told[R] = Told()
        try:
            self.runtime.shard(self.partition_of(transactional_id)).submit(operation, told.tell, haste)
        except KafkaError as error:
            told.tell(None, error)
        return told

    def read(self, transactional_id: str, operation: Callable[[TxnMachine], R]) -> R:
        """The operation must look at what is committed only."""
        return self.runtime.read(self.partition_of(transactional_id), operation)


def _settings(config: BrokerConfig) -> Settings:
    from ottla.coordinator.txn.machine import Settings

    return Settings(
        config.get_int("transactional.id.expiration.ms"),
        config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms"),
    )


def transaction_topic(config: BrokerConfig) -> NewTopic:
    """The topic as it is created when the first producer looks for its coordinator."""
    return NewTopic(
        TRANSACTION_TOPIC,
        config.get_int("transaction.state.log.num.partitions"),
        config.get_int("transaction.state.log.replication.factor"),
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("min.insync.replicas", str(config.get_int("transaction.state.log.min.isr"))),
            ("segment.bytes", str(config.get_int("transaction.state.log.segment.bytes"))),
            ("unclean.leader.election.enable", "false"),
        ),
    )
