"""Changes on top of an image: replay records, then `apply` gives the next image; the delta says what is different.

Copy on write, one mapping at a time: an image shares with the one before it all that no record touched.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast
from uuid import UUID

from ottla.metadata import held_records, partition_records, registrations
from ottla.metadata.image import (
    EMPTY_IMAGE,
    BrokerImage,
    ConfigResource,
    ControllerImage,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from ottla.metadata.large_map import writable_copy
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.replay_error import ReplayError

K = TypeVar("K")
V = TypeVar("V")
Publisher = Callable[["MetadataDelta", MetadataImage], Awaitable[None] | None]
"""Told of every committed change, in order, on the loop; the next waits until it is done. Errors are only logged."""


class PartitionKey(NamedTuple):
    topic_id: UUID
    partition: int


class Changed(Generic[K, V]):
    """A mapping of the base image, copied at the first write."""

    __slots__ = ("_copy", "_now")

    def __init__(self, base: Mapping[K, V]) -> None:
        self._now = base
        self._copy: MutableMapping[K, V] | None = None

    def read(self) -> Mapping[K, V]:
        return self._now

    def write(self) -> MutableMapping[K, V]:
        if self._copy is None:
            self._now = self._copy = writable_copy(self._now)
        return self._copy


class MetadataDelta:
    """What changed is kept in dicts, not sets, so that everyone sees it in the order of the log.

    created_topics, deleted_topics: deleted ones with the image they had; what came and went in between is in neither.
    changed_partitions: also those of created topics; not those of deleted ones.
    """

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.created_topics: dict[UUID, str] = {}
        self.deleted_topics: dict[UUID, TopicImage] = {}
        self.changed_partitions: dict[PartitionKey, None] = {}
        self.changed_configs: dict[ConfigResource, None] = {}
        self.changed_brokers: dict[int, None] = {}
        self.changed_controllers: dict[int, None] = {}
        self.changed_features: dict[str, None] = {}
        self.next_producer_id = base.next_producer_id
        self._features = Changed(base.features)
        self._brokers = Changed(base.brokers)
        self._controllers = Changed(base.controllers)
        self._topics = Changed(base.topics)
        self._topic_ids = Changed(base.topic_ids)
        self._partitions: dict[UUID, MutableMapping[int, PartitionImage]] = {}
        self._configs = Changed(base.configs)
        self._held: Changed[Hashable, MetadataRecord] = Changed(base.held)

    @classmethod
    def everything(cls, image: MetadataImage) -> MetadataDelta:
        """From nothing to an image: what a publisher is told first."""
        delta = cls(EMPTY_IMAGE)
        for topic in image.topics.values():
            delta.created_topics[topic.id] = topic.name
            delta.changed_partitions.update((PartitionKey(topic.id, number), None) for number in topic.partitions)
        delta.changed_configs.update(dict.fromkeys(image.configs))
        delta.changed_brokers.update(dict.fromkeys(image.brokers))
        delta.changed_controllers.update(dict.fromkeys(image.controllers))
        delta.changed_features.update(dict.fromkeys(image.features))
        return delta

    def replay(self, record: MetadataRecord) -> None:
        """ReplayError if the record makes no sense after those before it."""
        handler = _HANDLERS.get(record.__api_key__)
        if handler is None:
            raise ReplayError(f"{type(record).__name__} is not a record of the image")
        handler(self, record)

    def replay_all(self, records: Iterable[MetadataRecord]) -> None:
        for record in records:
            self.replay(record)

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """The image with all that was replayed. Nothing may be replayed after this: the image has the delta's dicts."""
        for topic_id, partitions in self._partitions.items():
            topic = self._topics.read()[topic_id]
            self._topics.write()[topic_id] = TopicImage(topic.id, topic.name, partitions)
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            features=self._features.read(),
            brokers=self._brokers.read(),
            controllers=self._controllers.read(),
            topics=self._topics.read(),
            topic_ids=self._topic_ids.read(),
            configs=self._configs.read(),
            next_producer_id=self.next_producer_id,
            held=self._held.read(),
        )

    # One handler for each record type. Records are typed Any here: their modules are loaded when one comes by.

    def _topic(self, record: Any) -> None:
        if record.topic_id in self._topics.read():
            raise ReplayError(f"topic id {record.topic_id} is given to {record.name!r} but already taken")
        if record.name in self._topic_ids.read():
            raise ReplayError(f"topic {record.name!r} is created a second time")
        self._topics.write()[record.topic_id] = TopicImage(record.topic_id, record.name, {})
        self._topic_ids.write()[record.name] = record.topic_id
        self.created_topics[record.topic_id] = record.name

    def _remove_topic(self, record: Any) -> None:
        topic = self._topics.read().get(record.topic_id)
        if topic is None:
            raise ReplayError(f"topic id {record.topic_id} is deleted but not known")
        partitions = self._partitions.pop(topic.id, topic.partitions)
        for number in partitions:
            self.changed_partitions.pop(PartitionKey(topic.id, number), None)
        del self._topics.write()[topic.id]
        del self._topic_ids.write()[topic.name]
        if self.created_topics.pop(topic.id, None) is None:
            self.deleted_topics[topic.id] = self.base.topics[topic.id]
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        if resource in self._configs.read():
            del self._configs.write()[resource]
            self.changed_configs[resource] = None

    def _partition(self, record: Any) -> None:
        self._set_partition(record.topic_id, record.partition_id, partition_records.created(record))

    def _partition_change(self, record: Any) -> None:
        before = self._partitions_of(record.topic_id).get(record.partition_id)
        if before is None:
            raise ReplayError(f"partition {record.partition_id} of {record.topic_id} changes but is not known")
        self._set_partition(record.topic_id, record.partition_id, partition_records.merged(before, record))

    def _clear_elr(self, record: Any) -> None:
        if not record.topic_name:
            topic_ids = list(self._topics.read())
        elif (topic_id := self._topic_ids.read().get(record.topic_name)) is not None:
            topic_ids = [topic_id]
        else:
            raise ReplayError(f"the ELR of topic {record.topic_name!r} is cleared but the topic is not known")
        for topic_id in topic_ids:
            for number, partition in list(self._partitions_of(topic_id).items()):
                if partition.elr or partition.last_known_elr:
                    cleared = replace(
                        partition, elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1
                    )
                    self._set_partition(topic_id, number, cleared)

    def _config(self, record: Any) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        values = dict(self._configs.read().get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self._configs.write()[resource] = values
        else:
            self._configs.write().pop(resource, None)
        self.changed_configs[resource] = None

    def _feature_level(self, record: Any) -> None:
        if record.feature_level:
            self._features.write()[record.name] = record.feature_level
        else:
            self._features.write().pop(record.name, None)
        self.changed_features[record.name] = None

    def _register_broker(self, record: Any) -> None:
        self._set_broker(registrations.broker(record))

    def _unregister_broker(self, record: Any) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        del self._brokers.write()[broker.id]
        self.changed_brokers[broker.id] = None

    def _fence_broker(self, record: Any) -> None:
        self._set_broker(replace(self._broker(record.id, record.epoch), fenced=True))

    def _unfence_broker(self, record: Any) -> None:
        self._set_broker(replace(self._broker(record.id, record.epoch), fenced=False))

    def _broker_registration_change(self, record: Any) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        self._set_broker(registrations.changed(broker, record))

    def _register_controller(self, record: Any) -> None:
        controller: ControllerImage = registrations.controller(record)
        self._controllers.write()[controller.id] = controller
        self.changed_controllers[controller.id] = None

    def _producer_ids(self, record: Any) -> None:
        if record.next_producer_id < self.next_producer_id:
            raise ReplayError(f"producer ids go back from {self.next_producer_id} to {record.next_producer_id}")
        self.next_producer_id = record.next_producer_id

    def _hold(self, record: MetadataRecord) -> None:
        key, remove = held_records.key_of(record)
        if remove:
            self._held.write().pop(key, None)
        else:
            self._held.write()[key] = record

    def _ignore(self, record: MetadataRecord) -> None:
        pass

    def _broker(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self._brokers.read().get(broker_id)
        if broker is None:
            raise ReplayError(f"broker {broker_id} changes but is not registered")
        if broker.epoch != epoch:
            raise ReplayError(f"broker {broker_id} changes in epoch {epoch} but is registered in epoch {broker.epoch}")
        return broker

    def _set_broker(self, broker: BrokerImage) -> None:
        self._brokers.write()[broker.id] = broker
        self.changed_brokers[broker.id] = None

    def _partitions_of(self, topic_id: UUID) -> Mapping[int, PartitionImage]:
        if topic_id in self._partitions:
            return self._partitions[topic_id]
        topic = self._topics.read().get(topic_id)
        if topic is None:
            raise ReplayError(f"a partition of topic id {topic_id} changes but there is no such topic")
        return topic.partitions

    def _set_partition(self, topic_id: UUID, number: int, partition: PartitionImage) -> None:
        if topic_id not in self._partitions:
            self._partitions[topic_id] = writable_copy(self._partitions_of(topic_id))
        self._partitions[topic_id][number] = partition
        self.changed_partitions[PartitionKey(topic_id, number)] = None


Handler = Callable[[MetadataDelta, Any], None]
_HANDLERS: Final[dict[int, Handler]] = cast(
    dict[int, Handler],
    {
        0: MetadataDelta._register_broker,
        1: MetadataDelta._unregister_broker,
        2: MetadataDelta._topic,
        3: MetadataDelta._partition,
        4: MetadataDelta._config,
        5: MetadataDelta._partition_change,
        7: MetadataDelta._fence_broker,
        8: MetadataDelta._unfence_broker,
        9: MetadataDelta._remove_topic,
        12: MetadataDelta._feature_level,
        15: MetadataDelta._producer_ids,
        17: MetadataDelta._broker_registration_change,
        20: MetadataDelta._ignore,  # NoOp
        21: MetadataDelta._ignore,  # ZkMigrationState: there is no ZooKeeper to come from
        27: MetadataDelta._register_controller,
        28: MetadataDelta._clear_elr,
        **dict.fromkeys(held_records.TYPES, MetadataDelta._hold),
    },
)
