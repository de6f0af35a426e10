"""What becomes of partitions when brokers and directories come and go.

Every change of leader, also to nobody, bumps the leader epoch, so over a restart of its only replica a partition's
epoch grows by two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from itertools import chain
from typing import Final
from uuid import UUID

from ottla.metadata.controller.min_isr import has_elr
from ottla.metadata.controller.partition_change import Election, PartitionChange, Rules
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.controller.topic_settings import TopicSettings
from ottla.metadata.delta import PartitionKey
from ottla.metadata.image import (
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    NO_LEADER,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.partition_change_record import PartitionChangeRecord

NOBODY: Final = -1


class InDoubtError(Exception):
    """A partition would be led by a broker that may be dead."""

    def __init__(self, broker_id: int) -> None:
        super().__init__(broker_id)
        self.broker_id = broker_id


class PartitionChanges:
    """Made for one decision: the image does not change under it."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings, soft: SoftState) -> None:
        self._image = image
        self._index = soft.index(image)
        self.of_topics = TopicSettings(image, settings)
        self._has_elr = has_elr(image)
        self._rules: dict[UUID, Rules] = {}

    def without_broker(self, gone: int, doubted: Collection[int] = ()) -> list[MetadataRecord]:
        """Takes a broker out of every ISR it is in, and elects others where it led."""
        return self._changes(self._index.in_isr[gone], gone=(gone,), doubted=doubted)

    def without_unregistered(self, gone: int) -> list[MetadataRecord]:
        """Where it was eligible it stays so by name, as in Kafka, until it registers anew: nobody knows then how it
        ended."""
        return self._changes((*self._index.in_isr[gone], *self._index.in_elr[gone]), gone=(gone,))

    def without_dead(self, dead: Collection[int], doubted: Collection[int]) -> list[MetadataRecord]:
        """Takes brokers that are known to be dead out of every ISR, all at once."""
        index = self._index
        keys = dict.fromkeys(chain(*(chain(index.in_isr[each], index.in_elr[each]) for each in dead)))
        return self._changes(keys, gone=dead, doubted=doubted)

    def after_crash(self, crashed: int, doubted: Collection[int] = ()) -> list[MetadataRecord]:
        """A broker begins anew and did not end well: it may lack what was not synced, so it is no longer eligible."""
        if not self._has_elr:
            return self.without_broker(crashed, doubted)
        keys = (*self._index.in_isr[crashed], *self._index.in_elr[crashed])
        return self._changes(keys, gone=(crashed,), crashed=crashed, doubted=doubted)

    def with_broker(self, back: int) -> list[MetadataRecord]:
        """Elects leaders for partitions that have none, now that a broker is back (in the image it is still fenced)."""
        return self._changes(self._index.leaderless, back=back)

    def without_directories(self, broker_id: int, offline: Collection[UUID]) -> list[MetadataRecord]:
        """Takes a broker out of the ISR of every partition that it has in one of these directories."""
        topics = self._image.topics
        lying_there = (
            key
            for key in self._index.in_isr[broker_id]
            if topics[key.topic_id].partitions[key.partition].directory_of(broker_id) in offline
        )
        return self._changes(lying_there, (broker_id,))

    def change(
        self,
        topic: TopicImage,
        number: int,
        partition: PartitionImage,
        *,
        gone: Collection[int] = (),
        back: int = NOBODY,
        may_be_unclean: bool = False,
    ) -> PartitionChange:
        """To be completed by whoever asks. `may_be_unclean`: if the topic's config allows it."""
        rules = self._rules.get(topic.id)
        if rules is None:
            rules = self._rules[topic.id] = self._rules_of(topic)
        change = PartitionChange(topic.id, number, partition, rules, partial(self._may_lead, partition, gone, back))
        if may_be_unclean and self.of_topics.may_be_unclean(topic.name):
            change.election = Election.UNCLEAN
        return change

    def _changes(
        self,
        keys: Iterable[PartitionKey],
        gone: Collection[int] = (),
        back: int = NOBODY,
        crashed: int = NOBODY,
        doubted: Collection[int] = (),
    ) -> list[MetadataRecord]:
        """Nobody leads who is `doubted`, because he may have died before those who are gone, and have lost his power:
        then one of their logs is the better one, and must stay the one that is counted on. InDoubtError if he leads
        already, or nobody else can.
        """
        records: list[MetadataRecord] = []
        unfit = (*gone, *doubted)
        for topic_id, number in keys:
            topic = self._image.topics[topic_id]
            partition = topic.partitions[number]
            if partition.leader in doubted:
                raise InDoubtError(partition.leader)

            record = self._without(topic, number, unfit, gone, back, crashed)
            if doubted and record is not None and record.leader == NO_LEADER:
                record = self._without(topic, number, gone, gone, back, crashed)
                if record is not None and record.leader in doubted:
                    raise InDoubtError(record.leader)
            if record is not None:
                records.append(record)
        return records

    def _without(
        self, topic: TopicImage, number: int, unfit: Collection[int], gone: Collection[int], back: int, crashed: int
    ) -> PartitionChangeRecord | None:
        """`unfit` to lead. While others are than who is gone, there is a better way left than an unclean election."""
        partition = topic.partitions[number]
        may_be_unclean = len(unfit) == len(gone)
        change = self.change(topic, number, partition, gone=unfit, back=back, may_be_unclean=may_be_unclean)
        change.isr = tuple(broker_id for broker_id in partition.isr if broker_id not in gone)
        change.crashed = crashed
        return change.record()

    def _rules_of(self, topic: TopicImage) -> Rules:
        replicas = len(next(iter(topic.partitions.values())).replicas)
        min_isr = min(self.of_topics.min_isr(topic.name), replicas)
        return Rules(self._image.metadata_version, self._has_elr, min_isr, self.default_directory)

    def _may_lead(self, partition: PartitionImage, gone: Collection[int], back: int, broker_id: int) -> bool:
        """Whether a broker is there for it, or comes `back` just now, with the directory that the partition lies in."""
        broker = self._image.brokers.get(broker_id)
        if broker is None or broker_id in gone or not (broker.active or broker_id == back):
            return False
        return broker_id in partition.replicas and broker.has_online(partition.directory_of(broker_id))

    def default_directory(self, broker_id: int) -> UUID:
        return default_directory(self._image, broker_id)


def default_directory(image: MetadataImage, broker_id: int) -> UUID:
    """A broker with several directories chooses itself, and tells afterwards (KIP-858)."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return DIRECTORY_UNASSIGNED
    if not broker.directories:
        return DIRECTORY_MIGRATING
    return broker.directories[0] if len(broker.directories) == 1 else DIRECTORY_UNASSIGNED
