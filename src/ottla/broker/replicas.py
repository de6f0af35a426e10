"""The partitions that this node has, kept as the metadata says: a publisher of metadata changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from uuid import UUID

from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.node_metrics import Gone
from ottla.broker.replication import Replication
from ottla.env.breath import Breath
from ottla.env.files import is_shortage
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.env.timers import TimerWheel
from ottla.log.manager import LogManager
from ottla.metadata.controller_port import ControllerPort
from ottla.metadata.delta import MetadataDelta, PartitionKey
from ottla.metadata.image import (
    DIRECTORY_LOST,
    DIRECTORY_UNASSIGNED,
    EMPTY_IMAGE,
    NO_LEADER,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ottla.model.config import BrokerConfig, LogConfig, log_config
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.replica.partition import Leadership, Partition
from ottla.replica.surroundings import NoSurroundings
from ottla.replica.tally import Tally
from ottla.replica.waiting import WaitingRoom

if TYPE_CHECKING:
    from ottla.log.log_dir import LogDir
    from ottla.log.partition_log import PartitionLog

_log = logging.getLogger("ottla.broker")
_MADE_AT_ONCE: Final = 10  # and as many more as take no longer than
_AT_ONCE_S: Final = 0.005
_OTHERS_AFTER_S: Final = 0.1


class Replicas:
    """`by_name` and `by_id` are what requests look into; both hold the same partitions."""

    def __init__(
        self,
        env: Env,
        config: DynamicConfig,
        logs: LogManager,
        waiting: WaitingRoom,
        checkpointed: Mapping[TopicPartition, int],
        assign: Callable[[UUID, int, UUID], None] = lambda topic_id, partition, directory: None,
    ) -> None:
        self.tally = Tally()
        self.by_name: dict[tuple[str, int], Partition] = {}
        self.by_id: dict[tuple[object, int], Partition] = {}
        self.image: MetadataImage = EMPTY_IMAGE
        self.gone = Gone()
        self.watchers: dict[str, Callable[[Partition], None]] = {}  # by topic: who is told of its partitions here
        self._env = env
        self._config = config
        self._node_id = config.current.node_id
        self._logs = logs
        self._waiting = waiting
        self._checkpointed = checkpointed  # high watermarks from before the start
        self._to_make: dict[PartitionKey, None] = {}
        self._is_making = False
        self._tasks = Tasks(lambda error: _log.error("partitions could not be made: %s", error))
        self._have_moved = True
        self._missing: list[TopicPartition] = []  # of which the log dir is not here, and nobody was told yet
        self._last_config: tuple[str, MetadataImage, BrokerConfig, LogConfig] | None = None
        self._assign = assign  # tells where a partition lies, if the metadata says something else
        self.replication: Replication | None = None  # with other brokers, once this node takes part in it
        self.replication_bytes_out: int = 0

    def replicate(self, timers: TimerWheel, controller: ControllerPort, broker_epoch: Callable[[], int]) -> None:
        """To be called before the first partition is placed."""
        self.replication = Replication(self._env, timers, self._config, self._logs, self, controller, broker_epoch)

    # -- looking up

    def name_of(self, topic_id: object) -> str | None:
        topic = self.image.topics.get(topic_id) if isinstance(topic_id, UUID) else None
        return topic.name if topic is not None else None

    def find(self, name: str | None, topic_id: UUID | None, partition: int) -> Partition | None:
        return (
            self.by_id.get((topic_id, partition)) if topic_id is not None else self.by_name.get((name or "", partition))
        )

    def why_not_here(self, name: str, partition: int) -> ErrorCode:
        """The error for a partition that this node does not have."""
        topic = self.image.topic(name)
        if topic is None or partition not in topic.partitions:
            return ErrorCode.unknown_topic_or_partition
        key = PartitionKey(topic.id, partition)
        if key in self._to_make:
            self._make(key)
            return ErrorCode.not_leader_or_follower  # the client asks again, and finds it
        if self._node_id in topic.partitions[partition].replicas:
            return ErrorCode.kafka_storage_error  # it should be here: its log dir is offline
        return ErrorCode.not_leader_or_follower

    @property
    def lost_leaders(self) -> frozenset[int]:
        """Of other brokers, those that have most likely just ended. The controller will say who leads then."""
        return self.replication.fetchers.lost_leaders if self.replication is not None else frozenset()

    def high_watermark(self, partition: TopicPartition) -> int | None:
        found = self.by_name.get(partition)
        return found.high_watermark if found is not None else None

    def _new_config(self, topic: str) -> LogConfig:
        """Of a topic that may have thousands of partitions, all with the same."""
        image, broker = self.image, self._config.current
        last = self._last_config
        if last is None or last[0] != topic or last[1] is not image or last[2] is not broker:
            last = self._last_config = (topic, image, broker, self.log_config_of(topic))
        return last[3]

    def log_config_of(self, topic: str) -> LogConfig:
        return log_config(self._config.current, self.image.topic_config(topic), topic)

    # -- following the metadata

    async def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Logs are made and deleted inline, and thousands take seconds: others get the loop in between.

        Of many new ones only the first are made before whoever asked for them is told, as in Kafka; a request for one
        of the others makes it at once.
        """
        self.image = image
        breath = Breath(self._env.clock)
        new, began = 0, self._env.clock.elapsed()
        for topic in delta.deleted_topics.values():
            for number in topic.partitions:
                self._remove(topic.id, TopicPartition(topic.name, number))
                await breath.take()
        for key in delta.changed_partitions:
            changed = image.partition(key.topic_id, key.partition)
            name = self.name_of(key.topic_id)
            if changed is not None and name is not None:
                is_new = key not in self.by_id and (key in self._to_make or _is_new(delta, key, self._node_id))
                new += is_new
                if is_new and new > _MADE_AT_ONCE and self._env.clock.elapsed() - began > _AT_ONCE_S:
                    self._to_make[key] = None
                    continue
                self._place(key.topic_id, name, key.partition, changed, is_new=is_new)
                await breath.take()
        for resource in delta.changed_configs:
            configured = image.topic(resource.name) if resource.type == ResourceType.TOPIC else None
            if configured is not None:
                # what a node is told at its start took effect before it; Kafka waits with it then
                await self._configure(configured, breath, is_change=delta.base is not EMPTY_IMAGE)
        if self._missing:
            self._tell_of_missing()
        if self._to_make and not self._is_making:
            self._is_making = True
            self._tasks.start(self._make_others(), "make partitions")

    def _tell_of_missing(self) -> None:
        missing, self._missing = self._missing, []
        shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        _log.error(
            "%d replicas of this node are offline, in log dirs that have failed or are not in log.dirs any more: %s. "
            "Bring those dirs back and restart. `ottla topic describe --unavailable` shows which partitions have no "
            "leader without them; only if the data of these are lost for good, delete their topics.",
            *(len(missing), shown),
        )

    async def _make_others(self) -> None:
        try:
            await asyncio.sleep(_OTHERS_AFTER_S)  # whoever asked for them looks at the metadata first
            breath = Breath(self._env.clock)
            tried: dict[PartitionKey, None] = {}  # one that cannot be made now stays for who asks for it
            while untried := [key for key in self._to_make if key not in tried]:  # others come meanwhile
                for key in untried:
                    tried[key] = None
                    if key in self._to_make:
                        self._make(key)
                    await breath.take()
        finally:
            self._is_making = False

    def _make(self, key: PartitionKey) -> None:
        """As the metadata has it now: it may have changed since it came to be."""
        del self._to_make[key]
        image, name = self.image.partition(*key), self.name_of(key.topic_id)
        if image is not None and name is not None:
            self._place(key.topic_id, name, key.partition, image, is_new=True)

    async def stop(self) -> None:
        self._to_make.clear()
        await self._tasks.stop()
        if self.replication is not None:
            await self.replication.stop()
        for partition in self.by_id.values():
            partition.stop()

    async def reconfigure(self, before: BrokerConfig, now: BrokerConfig) -> None:
        """What the brokers' configs give to topics that do not say otherwise has changed."""
        if log_config(before) == log_config(now):
            return
        breath = Breath(self._env.clock)
        for topic in list(self.image.topics.values()):
            await self._configure(topic, breath, is_change=True)

    async def _configure(self, topic: TopicImage, breath: Breath, *, is_change: bool) -> None:
        config = self.log_config_of(topic.name)
        for number in topic.partitions:
            if (partition := self.by_name.get((topic.name, number))) is not None:
                partition.configure(config)
                if is_change:
                    self._logs.configured(partition.log)
            await breath.take()

    def _place(self, topic_id: UUID, name: str, number: int, image: PartitionImage, *, is_new: bool) -> None:
        key = TopicPartition(name, number)
        if self._node_id not in image.replicas:
            self._remove(topic_id, key)
            return
        partition = self.by_id.get(PartitionKey(topic_id, number))
        if partition is None:
            log = self._open(key, topic_id, image, is_new)
            if log is None:
                return
            partition = self._add(key, topic_id, log)
        try:
            partition.lead_or_follow(
                Leadership(
                    image.leader,
                    image.leader_epoch,
                    image.isr,
                    image.replicas,
                    image.partition_epoch,
                    image.adding_replicas,
                    image.removing_replicas,
                )
            )
        except OSError as error:  # must not keep the partitions after it from what was published
            _log.error("the leader epoch of %s could not be stored: %s", key, error)
        if self.replication is not None:
            self.replication.placed(partition)

    def _open(self, key: TopicPartition, topic_id: UUID, image: PartitionImage, is_new: bool) -> PartitionLog | None:
        """The log of a partition, a new one if need be; None if it lies in a log dir that is offline, or not ours."""
        logs, directory = self._logs, image.directory_of(self._node_id)
        if logs.get(key) is None and not is_new:  # a new one would hide what comes back with the dir
            if logs.offline and directory == DIRECTORY_UNASSIGNED:  # we died before we could tell where it is
                self._assign(topic_id, key.partition, DIRECTORY_LOST)
                return None
            is_elsewhere = directory != DIRECTORY_UNASSIGNED and all(log_dir.id != directory for log_dir in logs.dirs)
            can_be_filled = image.leader not in (NO_LEADER, self._node_id) and not logs.offline
            if is_elsewhere and not can_be_filled:  # a replaced disk gets everything from the leader
                self._missing.append(key)
                return None
        log_dir = logs.dir_of(key)
        log = log_dir.logs[key] if log_dir is not None else None
        if log is None or log.topic_id != topic_id:
            try:
                log = logs.get_or_create(key, topic_id, self._new_config(key.topic), directory)
            except OSError as error:
                if is_shortage(error):
                    self._to_make[PartitionKey(topic_id, key.partition)] = None  # whoever asks for it tries again
                _log.error("the log of %s could not be created: %s", key, error)
                return None
            log_dir = logs.dir_of(key)
        if log_dir is not None and log_dir.id != directory:
            self._assign(topic_id, key.partition, log_dir.id)
        return log

    def give_up(self, log_dir: LogDir) -> None:
        """A log dir has failed: who asks for its partitions is told so, as if they had never been opened."""
        for key, log in log_dir.logs.items():
            partition = self.by_name.get(key)
            if partition is not None and partition.log is log:
                del self.by_name[key]
                del self.by_id[partition.topic_id, key.partition]
                self.gone.add(partition)
                self._leave(partition)
                self._waiting.touch(key)
                told = self.image.partition(partition.topic_id, key.partition)
                if told is not None and told.directory_of(self._node_id) != log_dir.id:
                    self._assign(partition.topic_id, key.partition, log_dir.id)

    def _add(self, key: TopicPartition, topic_id: UUID, log: PartitionLog) -> Partition:
        high_watermark = self._checkpointed.get(key, log.start_offset)
        around = self.replication if self.replication is not None else NoSurroundings()
        partition = Partition(self._env, self._node_id, key, topic_id, log, high_watermark, around, self.tally)
        partition.listeners.append(self)
        self._have_moved = True
        self.by_name[key] = partition
        self.by_id[topic_id, key.partition] = partition
        watcher = self.watchers.get(key.topic)
        if watcher is not None:
            watcher(partition)
        return partition

    def _remove(self, topic_id: UUID, key: TopicPartition) -> None:
        partition = self.by_id.pop((topic_id, key.partition), None)
        if partition is None:
            return
        self.gone.add(partition)
        self._have_moved = True
        if self.by_name.get(key) is partition:
            del self.by_name[key]
        self._leave(partition)
        try:
            self._logs.delete(key)
        except OSError as error:
            _log.error("the folder of %s could not be marked as deleted, a restart will set it aside: %s", key, error)

    def _leave(self, partition: Partition) -> None:
        if self.replication is not None:
            self.replication.gone(partition)
        partition.resign()

    # -- what partitions tell

    def have_high_watermarks_moved(self) -> bool:
        """Since the last time that this was asked: of 10,000 that rest nobody needs to look at each."""
        moved, self._have_moved = self._have_moved, False
        return moved

    def high_watermark_moved(self, partition: Partition, offset: int) -> None:
        self._have_moved = True
        if partition.key in self._waiting.watched:
            self._waiting.touch(partition.key)

    def leadership_changed(self, partition: Partition, led_before: bool) -> None:
        self._waiting.touch(partition.key)


def _is_new(delta: MetadataDelta, key: PartitionKey, node_id: int) -> bool:
    """Whether a node gets a replica with this change; what it is told at its start may all have been before."""
    if delta.base is EMPTY_IMAGE:
        return False
    before = delta.base.partition(key.topic_id, key.partition)
    return before is None or node_id not in before.replicas
