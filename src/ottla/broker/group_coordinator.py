"""The group coordinator of this node: which partition of `__consumer_offsets` a group lives in, and who asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.dynamic_config import DynamicConfig
from ottla.coordinator.group.hashing import group_hash as group_hash
from ottla.coordinator.machine import Outcome
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.shard import Shard
from ottla.env.ports import Env
from ottla.env.timers import TimerWheel
from ottla.metadata.controller.requests import NewTopic
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from ottla.broker.apis.offset_commit_again import CommitsBefore
    from ottla.broker.group_history import GroupHistory
    from ottla.coordinator.group.machine import GroupMachine
    from ottla.env.metrics import Gathered

R = TypeVar("R")


class GroupCoordinator:
    """Asked with a group's id; KafkaError with what Kafka tells a client that came too early or to the wrong node.

    What groups need is imported with the first of them: a node starts without.
    """

    def __init__(
        self,
        env: Env,
        timers: TimerWheel,
        config: DynamicConfig,
        image: Callable[[], MetadataImage],
        new_history: Callable[[], GroupHistory],
    ) -> None:
        self._env = env
        self._image = image
        self._config = config
        self._partitions = 0  # of the topic, once that is known
        self._new_history = new_history
        reply_within_ms = config.current.get_int("offsets.commit.timeout.ms")
        self.runtime: Runtime[GroupMachine] = Runtime(env, timers, self._make, reply_within_ms)

    def _make(self, shard: Shard[GroupMachine]) -> GroupMachine:
        from ottla.coordinator.group.machine import GroupMachine

        return GroupMachine(shard, self._env, lambda: self._config.current, self._image, self.history.note)

    @cached_property
    def history(self) -> GroupHistory:
        return self._new_history()

    @property
    def history_so_far(self) -> GroupHistory | None:
        """None if there has been no group yet."""
        return self.__dict__.get("history")

    @cached_property
    def commits_before(self) -> CommitsBefore:
        from ottla.broker.apis.offset_commit_again import CommitsBefore

        return CommitsBefore()

    def collect(self) -> Iterator[Gathered]:
        from ottla.broker.group_metrics import RebalanceMetrics

        return (self.history_so_far or RebalanceMetrics()).collect()

    def start(self, image: MetadataImage) -> None:
        """As in Kafka, partitions that are added to the topic later count only after a restart."""
        topic = image.topic(OFFSETS_TOPIC)
        configured = self._config.current.get_int("offsets.topic.num.partitions")
        self._partitions = len(topic.partitions) if topic is not None else configured

    async def stop(self) -> None:
        await self.runtime.stop()
        if self.history_so_far is not None:
            await self.history_so_far.stop()
        self._partitions = 0

    async def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Offsets go with their topics, and consumer groups follow what happens to theirs."""
        deleted = {topic.name: topic.id for topic in delta.deleted_topics.values()}
        if deleted:
            for shard in self.runtime.active:
                with suppress(KafkaError):  # it does not coordinate now; what it keeps will expire
                    shard.write(lambda machine: machine.sweep.forget_topics(deleted))
        changed = {key.topic_id: None for key in delta.changed_partitions}
        names = [topic.name for topic_id in changed if (topic := image.topics.get(topic_id)) is not None]
        if names or deleted or delta.created_topics:
            for shard in self.runtime.active:
                with suppress(KafkaError):  # one that is being loaded looks at everything when it is done
                    shard.read(
                        lambda machine: machine.consumer.topics_changed(
                            [*names, *deleted], created=bool(delta.created_topics)
                        )
                    )

    # -- asking

    def partition_of(self, group_id: str) -> int:
        if self._partitions == 0:
            raise KafkaError(ErrorCode.coordinator_not_available, "the group coordinator does not run")
        return group_hash(group_id) % self._partitions

    def shard_of(self, group_id: str) -> Shard[GroupMachine]:
        return self.runtime.shard(self.partition_of(group_id))

    def largest_write(self, group_id: str) -> int:
        """How many bytes of records one operation may bring about."""
        return self.shard_of(group_id).partition.log.config.max_message_bytes

    async def write(self, group_id: str, operation: Callable[[GroupMachine], Outcome[R]]) -> R:
        return await self.runtime.write(self.partition_of(group_id), operation)

    def submit(self, group_id: str, operation: Callable[[GroupMachine], Outcome[R]]) -> asyncio.Future[R]:
        """Like `write`, without a task: an answer that is ready is there at once."""
        return self.shard_of(group_id).write(operation)

    def read(self, group_id: str, operation: Callable[[GroupMachine], R]) -> R:
        """The operation must look at what is committed only."""
        return self.runtime.read(self.partition_of(group_id), operation)


def offsets_topic(config: BrokerConfig) -> NewTopic:
    """The topic as it is created when the first group looks for its coordinator."""
    return NewTopic(
        OFFSETS_TOPIC,
        config.get_int("offsets.topic.num.partitions"),
        config.get_int("offsets.topic.replication.factor"),
        configs=(
            ("cleanup.policy", "compact"),
            ("compression.type", "producer"),
            ("segment.bytes", str(config.get_int("offsets.topic.segment.bytes"))),
        ),
    )
