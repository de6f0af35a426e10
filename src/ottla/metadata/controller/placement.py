"""Where the replicas of new partitions go.

As Kafka's StripedReplicaPlacer: racks take turns for the leader, brokers within a rack take turns too, both from a
random start, so that partition after partition the leaders move over all racks and brokers; the replicas of a
partition go to different racks while there are some. Fenced brokers come last, and never first in a replica list.
When every live broker has had its turn the lists are shuffled, so that the same brokers do not always follow each
other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.env.ports import Randomness
from ottla.metadata.image import BrokerImage

T = TypeVar("T")


class PlacementError(ValueError):
    """Why the replicas cannot be placed, in Kafka's words."""


def place(
    brokers: Iterable[BrokerImage], partitions: int, replication_factor: int, random: Randomness
) -> list[tuple[int, ...]]:
    """The replicas of each new partition, its leader first."""
    usable = [broker for broker in brokers if not _all_cordoned(broker)]
    if replication_factor <= 0:
        raise PlacementError(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if all(broker.fenced for broker in usable):
        raise PlacementError("All brokers are currently fenced, or have all their log directories cordoned.")
    if replication_factor > len(usable):
        raise PlacementError(
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    racks = _Racks(usable, random)
    return [racks.next(replication_factor) for _ in range(partitions)]


def _all_cordoned(broker: BrokerImage) -> bool:
    cordoned = broker.cordoned_directories or ()
    return bool(broker.directories) and all(directory in cordoned for directory in broker.directories)


@dataclass(slots=True)
class _Turns:
    """A list that is gone through once a round, each round from one place further on."""

    brokers: list[int]
    start: int = 0
    _taken: int = 0
    _round: int = 0

    def next(self, round_number: int) -> int | None:
        if not self.brokers:
            return None
        if round_number != self._round:
            self._round = round_number
            self._taken = 0
            self.start = (self.start + 1) % len(self.brokers)
        if self._taken >= len(self.brokers):
            return None
        broker = self.brokers[(self.start + self._taken) % len(self.brokers)]
        self._taken += 1
        return broker


@dataclass(slots=True)
class _Rack:
    alive: _Turns = field(default_factory=lambda: _Turns([]))
    fenced: _Turns = field(default_factory=lambda: _Turns([]))

    def next(self, round_number: int) -> int | None:
        broker = self.alive.next(round_number)
        return self.fenced.next(round_number) if broker is None else broker


class _Racks:
    def __init__(self, brokers: list[BrokerImage], random: Randomness) -> None:
        self._random = random
        by_name: dict[str, _Rack] = {}
        for broker in sorted(brokers, key=lambda broker: (broker.rack or "", broker.id)):
            rack = by_name.setdefault(broker.rack or "", _Rack())
            (rack.fenced if broker.fenced else rack.alive).brokers.append(broker.id)
        self._racks = list(by_name.values())
        self._alive = sum(not broker.fenced for broker in brokers)
        for rack in self._racks:
            for turns in (rack.fenced, rack.alive):
                if turns.brokers:
                    turns.start = random.below(len(turns.brokers))
        self._first = random.below(len(self._racks))
        self._round = 0

    def next(self, replication_factor: int) -> tuple[int, ...]:
        if self._round == self._alive and self._alive > 1:
            self._shuffle()
            self._round = 0
        first = self._first % len(self._racks)
        leader, leader_rack = self._leader(first)
        replicas = [leader]
        rack_index = first
        skip_leader_rack_once = True
        while len(replicas) < replication_factor:
            broker = None
            if rack_index == leader_rack and skip_leader_rack_once:
                skip_leader_rack_once = False
            else:
                broker = self._racks[rack_index].next(self._round)
            rack_index = (rack_index + 1) % len(self._racks)
            if broker is not None:
                replicas.append(broker)
        self._round += 1
        self._first = first + 1
        return tuple(replicas)

    def _leader(self, first: int) -> tuple[int, int]:
        for step in range(len(self._racks)):
            index = (first + step) % len(self._racks)
            broker = self._racks[index].alive.next(self._round)
            if broker is not None:
                return broker, index
        raise AssertionError("a live broker was counted but is in no rack")

    def _shuffle(self) -> None:
        shuffle(self._racks, self._random)
        for rack in self._racks:
            shuffle(rack.alive.brokers, self._random)
            shuffle(rack.fenced.brokers, self._random)


def shuffle(items: list[T], random: Randomness) -> None:
    """Fisher and Yates, from the randomness port."""
    for last in range(len(items) - 1, 0, -1):
        other = random.below(last + 1)
        items[last], items[other] = items[other], items[last]
