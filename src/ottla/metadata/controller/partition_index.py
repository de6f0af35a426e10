"""Which partitions a broker or a plight concerns, so that no event looks at all of them.

Kept beside an image and brought along from one to the next by deltas. A set of partitions is an integer for each topic,
with one bit for each partition: a million partitions on three brokers each must not take a gigabyte.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from uuid import UUID

from ottla.metadata.delta import MetadataDelta, PartitionKey
from ottla.metadata.image import NO_LEADER, MetadataImage, PartitionImage, TopicImage


class PartitionSet:
    """In the order of topics as they came, then of partitions."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits: dict[UUID, int] = {}

    def __bool__(self) -> bool:
        return bool(self._bits)

    def __len__(self) -> int:
        return sum(bits.bit_count() for bits in self._bits.values())

    def __contains__(self, key: PartitionKey) -> bool:
        return bool(self._bits.get(key.topic_id, 0) >> key.partition & 1)

    def __iter__(self) -> Iterator[PartitionKey]:
        for topic_id, bits in list(self._bits.items()):
            while bits:
                lowest = bits & -bits
                yield PartitionKey(topic_id, lowest.bit_length() - 1)
                bits ^= lowest

    def add(self, topic_id: UUID, partition: int) -> None:
        self._bits[topic_id] = self._bits.get(topic_id, 0) | 1 << partition

    def add_all(self, topic_id: UUID, bits: int) -> None:
        """Of a topic that has none here yet."""
        if bits:
            self._bits[topic_id] = bits

    def discard(self, topic_id: UUID, partition: int) -> None:
        bits = self._bits.get(topic_id, 0) & ~(1 << partition)
        if bits:
            self._bits[topic_id] = bits
        else:
            self._bits.pop(topic_id, None)


class PartitionIndex:
    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.in_isr: defaultdict[int, PartitionSet] = defaultdict(PartitionSet)
        self.in_elr: defaultdict[int, PartitionSet] = defaultdict(PartitionSet)
        self.leaderless = PartitionSet()
        self.not_preferred = PartitionSet()
        self.reassigning = PartitionSet()
        self.led_by: Counter[int] = Counter()
        for topic in image.topics.values():
            self._add(topic)

    def _add(self, topic: TopicImage) -> None:
        """All of a topic at once: a controller that takes over has many to go through."""
        isr: defaultdict[int, int] = defaultdict(int)
        elr: defaultdict[int, int] = defaultdict(int)
        leaderless = not_preferred = reassigning = 0
        led_by = self.led_by
        for number, partition in topic.partitions.items():
            bit = 1 << number
            for broker_id in partition.isr:
                isr[broker_id] |= bit
            for broker_id in partition.elr:
                elr[broker_id] |= bit
            leader = partition.leader
            led_by[leader] += 1
            if leader != partition.replicas[0]:
                not_preferred |= bit
                if leader == NO_LEADER:
                    leaderless |= bit
            if partition.adding_replicas or partition.removing_replicas:
                reassigning |= bit
        for broker_id, bits in isr.items():
            self.in_isr[broker_id].add_all(topic.id, bits)
        for broker_id, bits in elr.items():
            self.in_elr[broker_id].add_all(topic.id, bits)
        self.leaderless.add_all(topic.id, leaderless)
        self.not_preferred.add_all(topic.id, not_preferred)
        self.reassigning.add_all(topic.id, reassigning)

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """To the image that a delta on top of this one made."""
        before = self.image
        for topic_id, topic in delta.deleted_topics.items():
            for number, partition in topic.partitions.items():
                self._put(topic_id, number, partition, None)
        for topic_id, number in delta.changed_partitions:
            self._put(topic_id, number, before.partition(topic_id, number), image.partition(topic_id, number))
        self.image = image

    def _put(self, topic_id: UUID, number: int, before: PartitionImage | None, now: PartitionImage | None) -> None:
        _move(self.in_isr, topic_id, number, before.isr if before else (), now.isr if now else ())
        _move(self.in_elr, topic_id, number, before.elr if before else (), now.elr if now else ())
        if before is not None:
            self.led_by[before.leader] -= 1
        if now is None:
            for marked in (self.leaderless, self.not_preferred, self.reassigning):
                marked.discard(topic_id, number)
            return
        self.led_by[now.leader] += 1
        _mark(self.leaderless, topic_id, number, now.leader == NO_LEADER)
        _mark(self.not_preferred, topic_id, number, now.leader != now.replicas[0])
        _mark(self.reassigning, topic_id, number, now.is_reassigning)


def _move(
    sets: defaultdict[int, PartitionSet], topic_id: UUID, number: int, before: tuple[int, ...], now: tuple[int, ...]
) -> None:
    if before == now:
        return
    for broker_id in before:
        if broker_id not in now:
            sets[broker_id].discard(topic_id, number)
    for broker_id in now:
        if broker_id not in before:
            sets[broker_id].add(topic_id, number)


def _mark(marked: PartitionSet, topic_id: UUID, number: int, is_so: bool) -> None:
    if is_so:
        marked.add(topic_id, number)
    else:
        marked.discard(topic_id, number)
