"""A group coordinator on virtual time with a list for a log: it stores late or not at all, and is replaced at will."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

from tests.coordinator.group.keeping import config

from ottla.coordinator.group.events import Event, EventSink
from ottla.coordinator.group.machine import GroupMachine
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.model.errors import ErrorCode, KafkaError

GROUP: Final = "group"
START_MS: Final = 1_000_000
Place = tuple[str, int]
OnReply = Callable[[Any], None]
OnError = Callable[[ErrorCode], None]


class Time:
    """What happens when, in order; of two things at the same moment the one that was set first."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self._order = count()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        heappush(self._heap, (self.now_ms + delay_ms, next(self._order), action))

    def run(self, for_ms: float, then: Callable[[], None]) -> None:
        """`then` after each thing that happened."""
        end = self.now_ms + for_ms
        while self._heap and self._heap[0][0] <= end:
            at, _, action = heappop(self._heap)
            self.now_ms = int(at)
            action()
            then()
        self.now_ms = int(end)


class Alarms:
    """What a machine sees of its shard: alarms by name, and the timeline."""

    def __init__(self, world: World) -> None:
        self.timeline = Timeline()
        self._world = world
        self._armed: dict[object, object] = {}

    def set(self, name: object, delay_ms: float, operation: Callable[[], Outcome[Any]]) -> None:
        token = self._armed[name] = object()
        self._world.time.after(delay_ms, lambda: self._ring(name, token, operation))

    def cancel(self, name: object) -> None:
        self._armed.pop(name, None)

    def _ring(self, name: object, token: object, operation: Callable[[], Outcome[Any]]) -> None:
        if self._world.shard is self and self._armed.get(name) is token:
            del self._armed[name]
            self._world.accept(operation())


@dataclass
class _Reply:
    after: int
    outcome: Outcome[Any]
    on_reply: OnReply
    on_error: OnError


class World:
    def __init__(self, seed: int, topics: dict[str, int], **settings: object) -> None:
        self.random = Random(seed)
        self.time = Time()
        self.image = image_of(topics)
        self.settings = config(group_initial_rebalance_delay_ms=1000, **settings)
        self.log: list[StoredRecord] = []
        self.events: list[Event] = []
        self.calm = False
        """Nothing goes wrong any more."""
        self._unstored: list[StoredRecord] = []
        self._waiting: deque[_Reply] = deque()
        self.shard: Alarms | None = None
        self.machine: GroupMachine
        self.start()

    # -- its life

    def start(self) -> None:
        self.shard = Alarms(self)
        self.machine = self._loaded(self.shard, self.events.append)
        self.machine.started()

    def _loaded(self, shard: Alarms, note: EventSink) -> GroupMachine:
        clock = SimpleNamespace(now_ms=lambda: self.time.now_ms)
        identities = SimpleNamespace(uuid=lambda: UUID(int=self.random.getrandbits(128), version=4))
        env: Any = SimpleNamespace(clock=clock, random=identities)
        around: Any = shard
        machine = GroupMachine(around, env, lambda: self.settings, lambda: self.image, note)
        for offset, record in enumerate(self.log):
            shard.timeline.offset = offset
            machine.replay(record, -1, -1)
        shard.timeline.commit(len(self.log))
        return machine

    def reloaded(self) -> GroupMachine:
        """Another one with the same log, to look at."""
        return self._loaded(Alarms(self), lambda event: None)

    def crash(self) -> None:
        """What was not stored yet may be in the log all the same, up to any operation's end."""
        ends = [0, *(reply.after - len(self.log) for reply in self._waiting)]
        self.log += self._unstored[: self.random.choice(ends)]
        self._unstored = []
        waiting, self._waiting = self._waiting, deque()
        shard, self.shard = self.shard, None
        if shard is not None:
            self.machine.stopped()
        for reply in waiting:
            reply.on_error(ErrorCode.not_coordinator)

    @property
    def is_up(self) -> bool:
        return self.shard is not None

    # -- operations

    def write(self, operation: Callable[[GroupMachine], Outcome[Any]], on_reply: OnReply, on_error: OnError) -> None:
        if self.shard is None:
            on_error(ErrorCode.not_coordinator)
            return
        try:
            outcome = operation(self.machine)
        except KafkaError as error:
            on_error(error.code)
            return
        self.accept(outcome, on_reply, on_error)

    def accept(
        self, outcome: Outcome[Any], on_reply: OnReply = lambda _: None, on_error: OnError = lambda _: None
    ) -> None:
        assert self.shard is not None
        self.shard.timeline.offset = len(self.log) + len(self._unstored)
        if outcome.take_over is not None:
            outcome.take_over()
            self._unstored += outcome.records
        else:
            for record in outcome.records:
                self.shard.timeline.offset = len(self.log) + len(self._unstored)
                self.machine.replay(record, -1, -1)
                self._unstored.append(record)
        self._waiting.append(_Reply(len(self.log) + len(self._unstored), outcome, on_reply, on_error))
        if self.calm or self.random.random() < 0.7:
            self.store()
        else:
            self.time.after(self.random.randint(1, 300), self.store)

    def store(self) -> None:
        if self.shard is None:
            return
        if not self.calm and self._unstored and self.random.random() < 0.06:
            self._fail()
            return
        self.log += self._unstored
        self._unstored = []
        self.shard.timeline.commit(len(self.log))
        waiting, self._waiting = self._waiting, deque()
        for reply in waiting:
            if reply.outcome.committed is not None:
                reply.outcome.committed()
            reply.on_reply(reply.outcome.reply)

    def _fail(self) -> None:
        assert self.shard is not None
        self._unstored = []
        waiting, self._waiting = self._waiting, deque()
        self.shard.timeline.undo(len(self.log))
        error = KafkaError(ErrorCode.coordinator_not_available, "it could not be stored")
        for reply in reversed(waiting):
            if reply.outcome.undone is not None:
                reply.outcome.undone(error)
            reply.on_error(error.code)

    @property
    def is_settled(self) -> bool:
        return not self._unstored and not self._waiting

    # -- topics

    def grow(self, topic: str) -> None:
        topics = {found.name: len(found.partitions) for found in self.image.topics.values()}
        self.image = image_of(topics | {topic: topics[topic] + 1})
        if self.shard is not None:
            self.machine.consumer.topics_changed([topic], created=False)

    @property
    def places(self) -> list[Place]:
        return [(topic.name, number) for topic in self.image.topics.values() for number in topic.partitions]


def image_of(topics: dict[str, int]) -> MetadataImage:
    made = [
        TopicImage(UUID(int=1000 + number), name, {n: PartitionImage((1,), (), (1,), 1, 0, 0) for n in range(count)})
        for number, (name, count) in enumerate(topics.items())
    ]
    return MetadataImage(
        offset=sum(topics.values()),
        topics={topic.id: topic for topic in made},
        topic_ids={topic.name: topic.id for topic in made},
    )
