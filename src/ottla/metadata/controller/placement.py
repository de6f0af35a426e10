"""Where the replicas of new partitions go.

As Kafka's StripedReplicaPlacer: racks take turns for the leader, brokers within a rack take turns too, both from a
random start, so that partition after partition the leaders move over all racks and brokers; the replicas of a
partition go to different racks while there are some. Fenced brokers come last, and never first in a replica list.
When every live broker has had its turn the lists are shuffled, so that the same brokers do not always follow each
other.

And what Kafka does not do: replicas of a partition go to different machines while there are some (hosts.py). A broker
whose machine has one already is passed over until no other machine is left. Where every broker has a machine of its
own, or all have the same, the outcome is Kafka's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from ottla.env.ports import Randomness
from ottla.metadata.controller.hosts import host_of
from ottla.metadata.image import BrokerImage

T = TypeVar("T")


class PlacementError(ValueError):
    """Why the replicas cannot be placed, in Kafka's words."""


class Placer:
    """For the partitions of one request: who can take replicas is found out once."""

    def __init__(self, brokers: Iterable[BrokerImage], random: Randomness) -> None:
        # As in Kafka, one that is about to go gets nothing, and neither does one whose directories are all cordoned.
        usable = [broker for broker in brokers if _has_room(broker)]
        racks: dict[str, tuple[list[int], list[int]]] = {}  # who lives, who is fenced
        for broker in sorted(usable, key=lambda broker: (broker.rack or "", broker.id)):
            name = broker.rack or ""
            if name not in racks:
                racks[name] = [], []
            racks[name][broker.fenced].append(broker.id)
        self._racks = list(racks.values())
        self._hosts = {broker.id: host_of(broker) for broker in usable}
        self._alive = sum(not broker.fenced for broker in usable)
        self._random = random

    def place(self, partitions: int, replication_factor: int) -> list[tuple[int, ...]]:
        """The replicas of each new partition of a topic, its leader first."""
        if replication_factor <= 0:
            raise PlacementError(
                f"Invalid replication factor {replication_factor}: the replication factor must be positive."
            )
        if not self._alive:
            raise PlacementError("All brokers are currently fenced, or have all their log directories cordoned.")
        if replication_factor > len(self._hosts):
            raise PlacementError(
                f"The target replication factor of {replication_factor} cannot be reached because only "
                f"{len(self._hosts)} broker(s) are registered or some brokers have all their log directories cordoned."
            )
        racks = _Racks(self._racks, self._hosts, self._alive, self._random)
        return [racks.next(replication_factor) for _ in range(partitions)]


def place(
    brokers: Iterable[BrokerImage], partitions: int, replication_factor: int, random: Randomness
) -> list[tuple[int, ...]]:
    return Placer(brokers, random).place(partitions, replication_factor)


def _has_room(broker: BrokerImage) -> bool:
    cordoned = broker.cordoned_directories or ()
    is_cordoned = bool(broker.directories) and all(directory in cordoned for directory in broker.directories)
    return not is_cordoned and not (broker.in_controlled_shutdown and not broker.fenced)


class _Turns:
    """A list that is gone through once a round, each round from one place further on."""

    __slots__ = ("_left", "_round", "brokers", "start")

    def __init__(self, brokers: list[int], random: Randomness) -> None:
        self.brokers = brokers.copy()
        self.start = random.below(len(brokers)) if brokers else 0
        self._round = 0
        self._left: list[int] | None = None  # who has not had his turn in this round

    def next(self, round_number: int, hosts: dict[int, str], taken: Collection[str]) -> int | None:
        """The next whose machine is not taken."""
        if not self.brokers:
            return None
        if round_number != self._round:
            self._round = round_number
            self._left = None
            self.start = (self.start + 1) % len(self.brokers)
        if self._left is None:
            self._left = self.brokers[self.start :] + self.brokers[: self.start]
        for position, broker in enumerate(self._left):
            if hosts[broker] not in taken:
                del self._left[position]
                return broker
        return None

    def shuffle(self, random: Randomness) -> None:
        shuffle(self.brokers, random)


class _Rack:
    __slots__ = ("alive", "fenced")

    def __init__(self, alive: list[int], fenced: list[int], random: Randomness) -> None:
        self.fenced = _Turns(fenced, random)
        self.alive = _Turns(alive, random)

    def next(self, round_number: int, hosts: dict[int, str], taken: Collection[str]) -> int | None:
        broker = self.alive.next(round_number, hosts, taken)
        return self.fenced.next(round_number, hosts, taken) if broker is None else broker


class _Racks:
    def __init__(
        self, racks: list[tuple[list[int], list[int]]], hosts: dict[int, str], alive: int, random: Randomness
    ) -> None:
        self._random = random
        self._hosts = hosts
        self._alive = alive
        self._racks = [_Rack(alive_ids, fenced_ids, random) for alive_ids, fenced_ids in racks]
        self._first = random.below(len(self._racks))
        self._round = 0

    def next(self, replication_factor: int) -> tuple[int, ...]:
        if self._round == self._alive and self._alive > 1:
            self._shuffle()
            self._round = 0
        first = self._first % len(self._racks)
        leader, leader_rack = self._leader(first)
        replicas = [leader]
        taken = {self._hosts[leader]}
        rack_index = first
        skip_leader_rack_once = True
        fruitless = 0  # racks in a row that had nobody
        while len(replicas) < replication_factor:
            broker = None
            if rack_index == leader_rack and skip_leader_rack_once:
                skip_leader_rack_once = False
            else:
                broker = self._racks[rack_index].next(self._round, self._hosts, taken)
                fruitless = 0 if broker is not None else fruitless + 1
            rack_index = (rack_index + 1) % len(self._racks)
            if broker is not None:
                replicas.append(broker)
                taken.add(self._hosts[broker])
            elif fruitless >= len(self._racks):
                taken.clear()  # no other machine is left: they must share
                fruitless = 0
        self._round += 1
        self._first = first + 1
        return tuple(replicas)

    def _leader(self, first: int) -> tuple[int, int]:
        for step in range(len(self._racks)):
            index = (first + step) % len(self._racks)
            broker = self._racks[index].alive.next(self._round, self._hosts, ())
            if broker is not None:
                return broker, index
        raise AssertionError("a live broker was counted but is in no rack")

    def _shuffle(self) -> None:
        shuffle(self._racks, self._random)
        for rack in self._racks:
            rack.alive.shuffle(self._random)
            rack.fenced.shuffle(self._random)


def shuffle(items: list[T], random: Randomness) -> None:
    """Fisher and Yates, from the randomness port."""
    for last in range(len(items) - 1, 0, -1):
        other = random.below(last + 1)
        items[last], items[other] = items[other], items[last]
