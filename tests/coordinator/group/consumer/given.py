"""Groups of both kinds on virtual time: a coordinator whose log is a list, and consumers that send it heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count
from struct import unpack_from
from typing import Any
from uuid import UUID

from tests.coordinator.group.classic.given import Alarms

from ottla.coordinator.group.classic import core as classic_core
from ottla.coordinator.group.classic.groups import ClassicGroups
from ottla.coordinator.group.classic.records import KEY_TYPE as CLASSIC_KEY
from ottla.coordinator.group.classic.requests import Client
from ottla.coordinator.group.consumer.core import Limits, Settings, Surroundings
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.groups import ConsumerGroups
from ottla.coordinator.group.consumer.members import AWAY, LEFT, Assigned, Member
from ottla.coordinator.group.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.group.events import Event
from ottla.coordinator.group.owners import BothKinds
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.model.errors import ErrorCode, KafkaError

GROUP = "group"
START_MS = 1_000_000
REBALANCE_MS = 60_000
SETTINGS = Settings()
Parts = dict[str, list[int]]


def topic_id(name: str) -> UUID:
    return UUID(int=(1 << 120) + int.from_bytes(name.encode()))


def image_of(offset: int = 1, **topics: int) -> MetadataImage:
    """Topics with so many partitions."""
    images = {}
    for name, partitions in topics.items():
        rows = {number: PartitionImage((1,), (UUID(int=7),), (1,), 1, 0, 0) for number in range(partitions)}
        images[topic_id(name)] = TopicImage(topic_id(name), name, rows)
    return MetadataImage(offset, topics=images, topic_ids={topic.name: topic.id for topic in images.values()})


def parts(assigned: Mapping[UUID, Collection[int]], **known: int) -> Parts:
    """By the names of topics, which are short enough to be read from their ids."""
    return {
        (key.int & ~(1 << 120)).to_bytes(8).lstrip(b"\0").decode(): sorted(numbers) for key, numbers in assigned.items()
    }


class Beside:
    """The other process, which is done when `finish` is called."""

    def __init__(self) -> None:
        self.jobs: dict[object, tuple[Callable[..., Any], tuple[Any, ...], Callable[[Any], Outcome[Any]]]] = {}

    def is_running(self, name: object) -> bool:
        return name in self.jobs

    def start(
        self,
        name: object,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        done: Callable[[Any], Outcome[Any]],
        failed: Callable[[BaseException], Outcome[Any]],
    ) -> None:
        self.jobs[name] = (function, args, done)

    def finish(self, coordinator: Coordinator) -> None:
        jobs, self.jobs = self.jobs, {}
        for function, args, done in jobs.values():
            coordinator.run(done(function(*args)))


class Coordinator:
    """Commits at once, unless told to hold; then `commit` or `fail` decides."""

    def __init__(
        self,
        log: Iterable[StoredRecord] = (),
        now_ms: int = START_MS,
        settings: Settings = SETTINGS,
        image: MetadataImage | None = None,
        **limits: Any,
    ) -> None:
        self.now_ms: int = now_ms
        self.limits = Limits(**limits)
        self.settings = settings
        self.image = image_of(t=3) if image is None else image
        self.events: list[Event] = []
        self.holds = False
        self._held: list[tuple[int, Outcome[Any]]] = []
        self._ids = count(1)
        self.log: list[StoredRecord] = []
        self._start(list(log))

    def _start(self, log: list[StoredRecord]) -> None:
        self.timeline = Timeline()
        self.alarms = Alarms(self)  # type: ignore[arg-type]
        self.beside = Beside()
        self.classic = ClassicGroups(
            self.timeline,
            classic_core.Surroundings(
                self.alarms, lambda: self.now_ms, self._new_id, classic_core.Limits(), self.events.append
            ),
        )
        self.groups = ConsumerGroups(
            self.timeline,
            Surroundings(
                self.alarms, self.beside, lambda: self.now_ms, self._new_id, lambda: self.image,
                lambda group_id: self.settings, self.limits, self.events.append,
            ),
        )  # fmt: skip
        self.owners = BothKinds(self.classic, self.groups)
        self.log = []
        for record in log:
            self._replay(record)
        self.timeline.commit(len(self.log))
        self.classic.started()
        self.groups.started()

    def _new_id(self) -> str:
        return f"id{next(self._ids)}"

    def restart(self) -> None:
        """Another one takes over, with nothing but what was committed."""
        self.fail()
        self._start(self.log)

    def _replay(self, record: StoredRecord) -> None:
        self.timeline.offset = len(self.log)
        (kind,) = unpack_from(">h", record.key)
        if kind == CLASSIC_KEY:
            self.classic.replay(record)
        else:
            self.groups.replay(record, kind)
        self.log.append(record)

    def run(self, outcome: Outcome[Any]) -> Any:
        base = len(self.log)
        for record in outcome.records:
            self._replay(record)
        self._held.append((base, outcome))
        if not self.holds:
            self.commit()
        return outcome.reply

    def commit(self) -> None:
        held, self._held = self._held, []
        self.timeline.commit(len(self.log))
        for _, outcome in held:
            if outcome.committed is not None:
                outcome.committed()

    def fail(self) -> None:
        """All that is held has not happened."""
        held, self._held = self._held, []
        if held:
            self.timeline.undo(held[0][0])
            del self.log[held[0][0] :]

    def advance(self, ms: int) -> None:
        until = self.now_ms + ms
        while (due := self.alarms.due(until)) is not None:
            self.now_ms = max(self.now_ms, int(due[0]))
            self.run(due[1]())
        self.now_ms = until

    def set_topics(self, **topics: int) -> None:
        before, self.image = self.image, image_of(self.image.offset + 1, **topics)
        created = set(self.image.topic_ids) - set(before.topic_ids)
        changed = [
            name
            for name in {*self.image.topic_ids, *before.topic_ids}
            if self.image.topic(name) != before.topic(name)
        ]  # fmt: skip
        self.groups.topics_changed(changed, created=bool(created))

    # -- what members ask

    def beat(self, member_id: str, epoch: int, *, group_id: str = GROUP, **said: Any) -> HeartbeatAnswer:
        """`owned` by names of topics; `topics` as a list."""
        if "topics" in said:
            said["topics"] = frozenset(said["topics"])
        if "owned" in said:
            said["owned"] = {topic_id(name): numbers for name, numbers in said["owned"].items()}
        client = Client(said.pop("client", "client"), "/127.0.0.1")
        answer: HeartbeatAnswer = self.run(
            self.groups.heartbeat(HeartbeatRequest(group_id, member_id, epoch, client, **said))
        )
        return answer

    def join(self, member_id: str, topics: Iterable[str] = ("t",), **said: Any) -> HeartbeatAnswer:
        first: dict[str, Any] = {"topics": topics, "owned": {}, "rebalance_timeout_ms": REBALANCE_MS}
        return self.beat(member_id, 0, **(first | said))

    def leave(self, member_id: str, instance_id: str | None = None) -> HeartbeatAnswer:
        return self.beat(member_id, LEFT, instance_id=instance_id)

    def go_away(self, member_id: str, instance_id: str) -> HeartbeatAnswer:
        return self.beat(member_id, AWAY, instance_id=instance_id)

    def error(self, member_id: str, epoch: int, **said: Any) -> tuple[ErrorCode, str | None]:
        try:
            self.beat(member_id, epoch, **said)
        except KafkaError as error:
            return error.code, error.message
        raise AssertionError("no error")

    # -- shortcuts

    @property
    def group(self) -> ConsumerGroup:
        group = self.groups.get(GROUP)
        assert group is not None
        return group

    def member(self, member_id: str) -> Member:
        return self.group.members[member_id]

    def has(self, member_id: str) -> Parts:
        return parts(self.member(member_id).assigned)

    @property
    def state(self) -> str:
        return self.groups.describe(GROUP).state

    def noted(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def told(self, answer: HeartbeatAnswer) -> Parts | None:
        return None if answer.assigned is None else parts(answer.assigned)

    def settle(self, consumers: Mapping[str, Consumer], rounds: int = 20) -> None:
        """Heartbeats of all until nothing changes, every five seconds."""
        for _ in range(rounds):
            before = {name: (consumer.epoch, consumer.owned) for name, consumer in consumers.items()}
            for consumer in consumers.values():
                consumer.beat()
            if before == {name: (consumer.epoch, consumer.owned) for name, consumer in consumers.items()}:
                return
            self.advance(5000)
        raise AssertionError("it never settles")


class Consumer:
    """Does as it is told: gives up what is not its own any more, and says so with the next heartbeat."""

    def __init__(self, coordinator: Coordinator, member_id: str, topics: Iterable[str] = ("t",), **said: Any) -> None:
        self.coordinator = coordinator
        self.id = member_id
        self.instance_id = said.get("instance_id")
        self.epoch = 0
        self.owned: Parts = {}
        self._take(coordinator.join(member_id, topics, **said))

    def beat(self, **said: Any) -> HeartbeatAnswer:
        answer = self.coordinator.beat(
            self.id, self.epoch, owned=self.owned, instance_id=self.instance_id, **said
        )  # fmt: skip
        self._take(answer)
        return answer

    def _take(self, answer: HeartbeatAnswer) -> None:
        self.epoch = answer.epoch
        if answer.assigned is not None:
            self.owned = parts(answer.assigned)


def assigned_of(**partitions: dict[int, int]) -> Assigned:
    return {topic_id(name): epochs for name, epochs in partitions.items()}
