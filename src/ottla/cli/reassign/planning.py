"""Where partitions should be: on the brokers that are wanted, spread over racks, evenly, with the fewest moves.

What comes first counts more: replicas leave brokers that are not wanted; those of a partition are in as many racks as
there are, and on as many machines; each topic is spread evenly; all topics together are; and so are the leaders, by
which replica stands first, which moves nothing. A replica that can stay stays. Among those that could move, the
smallest does.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition

Replicas = tuple[int, ...]


def plan(
    now: Mapping[TopicPartition, Replicas],
    racks: Mapping[int, str | None],
    *,
    hosts: Mapping[int, str] | None = None,
    staying: Mapping[TopicPartition, Replicas] | None = None,
    sizes: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, Replicas]:
    """Gives those of `now` that change. `racks` are the brokers to use; `staying` is not touched, but counts.

    `hosts` are their machines; without it each has one of its own.
    """
    widest = max(now.items(), key=lambda entry: len(entry[1]), default=None)
    if widest is not None and len(widest[1]) > len(racks):
        raise OttlaError(
            f"{widest[0]} has {len(widest[1])} replicas, and only {len(racks)} brokers are left for them: "
            "leave more brokers, or give the topic fewer replicas first"
        )
    work = _Work(now, racks, hosts or {}, staying or {}, sizes or {})
    work.leave_unwanted()
    work.spread()
    work.level_topics()
    while work.level_brokers() and work.level_topics():  # a move for all together may make room for one within a topic
        pass
    work.level_leaders()
    return {place: tuple(replicas) for place, replicas in work.replicas.items() if tuple(replicas) != now[place]}


class _Work:
    def __init__(
        self,
        now: Mapping[TopicPartition, Replicas],
        racks: Mapping[int, str | None],
        hosts: Mapping[int, str],
        staying: Mapping[TopicPartition, Replicas],
        sizes: Mapping[TopicPartition, int],
    ) -> None:
        self.replicas = {place: list(replicas) for place, replicas in sorted(now.items())}
        self._brokers = sorted(racks)
        # over what the replicas of a partition are spread, the more important first
        self._kinds = tuple(_apart(self._brokers, named) for named in (racks, hosts))
        self._sizes = sizes
        self._held = Counter(broker for replicas in staying.values() for broker in replicas)
        self._led = Counter(replicas[0] for replicas in staying.values())
        self._of_topic: dict[str, Counter[int]] = defaultdict(Counter)
        self._led_of_topic: dict[str, Counter[int]] = defaultdict(Counter)
        self._places: dict[int, set[TopicPartition]] = defaultdict(set)
        for place, replicas in self.replicas.items():
            for broker in replicas:
                self._count(place, broker, 1)

    def leave_unwanted(self) -> None:
        for place, replicas in self.replicas.items():
            for broker in [broker for broker in replicas if broker not in self._brokers]:
                self._move(place, broker, self._best(place, leaving=broker))

    def spread(self) -> None:
        for number, places in enumerate(self._kinds):
            for place in self.replicas:
                while self._spread(place, places, self._kinds[:number]):
                    pass

    def _spread(self, place: TopicPartition, apart: Mapping[int, str], kept: Sequence[Mapping[int, str]]) -> bool:
        """One move out of the fullest rack, or off the fullest machine, to one that has at least two less."""
        replicas = self.replicas[place]
        used = Counter(apart[broker] for broker in replicas)
        fullest = max(used.values())
        crowded = [broker for broker in replicas if used[apart[broker]] == fullest]
        free = [broker for broker in self._brokers if broker not in replicas and used[apart[broker]] + 1 < fullest]
        for leaving in sorted(crowded, key=lambda broker: self._load(place, broker), reverse=True):
            taking = [broker for broker in free if self._keeps(place, leaving, broker, kept)]
            if taking:
                self._move(place, leaving, self._best(place, leaving=leaving, among=taking))
                return True
        return False

    def level_topics(self) -> bool:
        """Whether that has moved anything."""
        moves = 0
        for topic, counts in self._of_topic.items():
            while self._level(counts, lambda place, topic=topic: place.topic == topic):  # type: ignore[misc]
                moves += 1
        return moves > 0

    def level_brokers(self) -> bool:
        """By moves that keep each topic level: it has more on the one than on the other."""
        moves = 0
        while self._level(self._held, lambda place: True, keep_topics=True):
            moves += 1
        return moves > 0

    def level_leaders(self) -> None:
        by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
        for place, replicas in self.replicas.items():
            by_topic[place.topic].append(place)
            self._led[replicas[0]] += 1
            self._led_of_topic[place.topic][replicas[0]] += 1
        for topic, places in by_topic.items():
            while self._pass_on(self._led_of_topic[topic], places):
                pass
        while self._pass_on(self._led, list(self.replicas), keep_topics=True):
            pass

    def _level(
        self, counts: Counter[int], may_move: Callable[[TopicPartition], bool], *, keep_topics: bool = False
    ) -> bool:  # fmt: skip
        """One move from a broker that has more to one that has less, by two or more; False if none is to be made."""
        for high, low in self._uneven(counts):
            movable = [
                place
                for place in self._places[high] - self._places[low]
                if may_move(place)
                and self._keeps(place, high, low, self._kinds)
                and not (keep_topics and self._of_topic[place.topic][high] <= self._of_topic[place.topic][low])
            ]
            if movable:
                self._move(min(movable, key=lambda place: (self._sizes.get(place, 0), place)), high, low)
                return True
        return False

    def _uneven(self, counts: Counter[int]) -> Iterator[tuple[int, int]]:
        """Pairs of brokers, the most uneven first; among equals what all topics together have decides."""
        by_load = sorted(self._brokers, key=lambda broker: (counts[broker], self._held[broker], broker))
        for high in reversed(by_load):
            for low in by_load:
                if counts[high] - counts[low] < 2:
                    break
                yield high, low

    def _keeps(self, place: TopicPartition, leaving: int, taking: int, kinds: Sequence[Mapping[int, str]]) -> bool:
        """Whether the replicas of a partition are spread as well after a move."""
        for apart in kinds:
            here, there = apart[leaving], apart[taking]
            if here != there:
                used = Counter(apart[broker] for broker in self.replicas[place])
                if used[there] >= used[here]:
                    return False
        return True

    def _best(self, place: TopicPartition, *, leaving: int, among: Iterable[int] | None = None) -> int:
        replicas = self.replicas[place]
        staying = [broker for broker in replicas if broker != leaving and broker in self._brokers]
        used = [Counter(apart[broker] for broker in staying) for apart in self._kinds]
        free = [broker for broker in (self._brokers if among is None else among) if broker not in replicas]

        def order(broker: int) -> tuple[int, ...]:
            crowds = (counted[apart[broker]] for counted, apart in zip(used, self._kinds, strict=True))
            return *crowds, *self._load(place, broker)

        return min(free, key=order)

    def _load(self, place: TopicPartition, broker: int) -> tuple[int, int, int]:
        return self._of_topic[place.topic][broker], self._held[broker], broker

    def _move(self, place: TopicPartition, leaving: int, taking: int) -> None:
        """Where it stands, so that a leader's successor is as likely to lead as it was."""
        replicas = self.replicas[place]
        self._count(place, leaving, -1)
        replicas[replicas.index(leaving)] = taking
        self._count(place, taking, 1)

    def _count(self, place: TopicPartition, broker: int, change: int) -> None:
        self._held[broker] += change
        self._of_topic[place.topic][broker] += change
        (self._places[broker].add if change > 0 else self._places[broker].discard)(place)

    def _pass_on(
        self, counts: Counter[int], places: Sequence[TopicPartition], *, keep_topics: bool = False
    ) -> bool:  # fmt: skip
        """Leadership goes from a broker to one with two less or fewer, over others if need be; False if nowhere can."""
        for high in sorted(self._brokers, key=lambda broker: (-counts[broker], broker)):
            path = self._way(high, counts, places, keep_topics=keep_topics)
            if path:
                for place, leader in path:
                    self._lead(place, leader)
                return True
        return False

    def _way(
        self, start: int, counts: Counter[int], places: Sequence[TopicPartition], *, keep_topics: bool
    ) -> list[tuple[TopicPartition, int]]:  # fmt: skip
        """Which partitions must get which leader, so that `start` leads one less and one that has few one more."""
        led: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in places:
            led[self.replicas[place][0]].append(place)
        came: dict[int, tuple[int, TopicPartition]] = {}
        waiting = deque((start,))
        while waiting:
            broker = waiting.popleft()
            for place in led[broker]:
                topic = self._led_of_topic[place.topic]
                for other in self.replicas[place][1:]:
                    if other in came or other == start or (keep_topics and topic[other] >= topic[broker]):
                        continue
                    came[other] = (broker, place)
                    if counts[start] - counts[other] >= 2:
                        return _walked(came, start, other)
                    waiting.append(other)
        return []

    def _lead(self, place: TopicPartition, leader: int) -> None:
        replicas = self.replicas[place]
        before, position = replicas[0], replicas.index(leader)
        replicas[0], replicas[position] = leader, before
        for counts in (self._led, self._led_of_topic[place.topic]):
            counts[before] -= 1
            counts[leader] += 1


def _apart(brokers: Iterable[int], named: Mapping[int, str | None]) -> dict[int, str]:
    """Where each broker is. Without any name all are alike; one that has none among others is by itself."""
    if not any(named.get(broker) for broker in brokers):
        return dict.fromkeys(brokers, "")
    return {broker: named.get(broker) or f"\0{broker}" for broker in brokers}


def _walked(came: Mapping[int, tuple[int, TopicPartition]], start: int, end: int) -> list[tuple[TopicPartition, int]]:
    path = []
    while end != start:
        before, place = came[end]
        path.append((place, end))
        end = before
    return path
