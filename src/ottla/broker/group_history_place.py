"""Where the history of groups lies: its topic has the replicas of `__consumer_offsets`, and the same leaders.

Who coordinates a group writes its history, so it has to lead both partitions. They mostly go from broker to broker
together. Where they have parted (one was created while a broker was away, or was moved by hand), the coordinator has
the history come to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.metadata.controller.requests import (
    USE_DEFAULT,
    AlterPartitionReassignments,
    ElectionType,
    ElectLeaders,
    NewTopic,
    PartitionErrors,
    PartitionsOf,
    Reassignment,
)
from ottla.metadata.controller_port import ControllerPort
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import HISTORY_TOPIC, OFFSETS_TOPIC

_log = logging.getLogger("ottla.coordinator.group")


class _Parted(NamedTuple):
    number: int
    history: PartitionImage
    replicas: tuple[int, ...]  # that it ought to have


class HistoryPlace:
    def __init__(
        self,
        controller: ControllerPort,
        node_id: int,
        image: Callable[[], MetadataImage],
        create: Callable[[list[str]], None],
    ) -> None:
        """`create` has topics created, in the background."""
        self._controller = controller
        self._node_id = node_id
        self._image = image
        self._create = create

    def coordinates(self, group_hash: int) -> bool:
        """Whether this node does, by what it knows of the metadata."""
        topic = self._image().topic(OFFSETS_TOPIC)
        return topic is not None and topic.partitions[group_hash % len(topic.partitions)].leader == self._node_id

    async def prepare(self, group_hashes: set[int]) -> None:
        """So that what is remembered of these groups can be written here, soon."""
        if self._image().topic(HISTORY_TOPIC) is None:
            self._create([HISTORY_TOPIC])
            return
        parted = list(self._parted(group_hashes))
        try:
            await self._move([each for each in parted if each.history.replicas != each.replicas])
            await self._lead([each for each in parted if self._node_id in each.history.isr])
        except KafkaError as error:
            _log.warning("the history of groups cannot come to their coordinator now: %s", error)

    def _parted(self, group_hashes: set[int]) -> Iterator[_Parted]:
        offsets, history = self._image().topic(OFFSETS_TOPIC), self._image().topic(HISTORY_TOPIC)
        if offsets is None or history is None or len(offsets.partitions) != len(history.partitions):
            return
        for number in sorted({each % len(offsets.partitions) for each in group_hashes}):
            here, there = offsets.partitions[number], history.partitions[number]
            if here.leader == self._node_id and there.leader != self._node_id and not there.is_reassigning:
                others = tuple(each for each in here.replicas if each != self._node_id)
                yield _Parted(number, there, (self._node_id, *others))

    async def _move(self, parted: list[_Parted]) -> None:
        """This node becomes the preferred leader."""
        if parted:
            wanted = tuple(Reassignment(each.number, each.replicas) for each in parted)
            _tell(await self._controller.submit(AlterPartitionReassignments(((HISTORY_TOPIC, wanted),))))

    async def _lead(self, parted: list[_Parted]) -> None:
        if parted:
            which = (PartitionsOf(HISTORY_TOPIC, tuple(each.number for each in parted)),)
            _tell(await self._controller.submit(ElectLeaders(ElectionType.PREFERRED, which)))


def _tell(outcomes: PartitionErrors) -> None:
    for topic, partitions in outcomes:
        for number, error in partitions:
            if error.code not in (ErrorCode.none, ErrorCode.election_not_needed):
                _log.warning("%s-%d cannot come to its groups' coordinator now: %s", topic, number, error.message)


def history_topic(image: MetadataImage, config: BrokerConfig) -> NewTopic:
    """On the same brokers as the groups themselves, so that it moves with their coordinators."""
    offsets = image.topic(OFFSETS_TOPIC)
    places: tuple[tuple[int, tuple[int, ...]], ...] = ()
    partitions, replicas = USE_DEFAULT, USE_DEFAULT
    if offsets is not None:
        places = tuple((number, each.replicas) for number, each in offsets.partitions.items())
    else:  # somebody asked for it before there was a group
        partitions = config.get_int("offsets.topic.num.partitions")
        replicas = config.get_int("offsets.topic.replication.factor")
    return NewTopic(
        HISTORY_TOPIC,
        partitions,
        replicas,
        places,
        configs=(
            ("cleanup.policy", "compact,delete"),
            ("compression.type", "producer"),
            ("retention.ms", str(7 * 24 * 3600 * 1000)),
            ("segment.bytes", str(16 * 1024 * 1024)),
        ),
    )
