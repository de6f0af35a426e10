"""Clients on virtual time: processes with connections that send what real ones send, to the real state machine."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random

from tests.coordinator.group.classic.given import GROUP, Asked, Coordinator

from ottla.coordinator.group.classic.requests import Leaving
from ottla.coordinator.group.events import Topic
from ottla.coordinator.group.history.coding import decode
from ottla.coordinator.group.history.entries import End, Entry, Roll
from ottla.coordinator.group.history.finding import Finding, Kind
from ottla.coordinator.group.history.findings import findings
from ottla.coordinator.group.history.historian import Historian
from ottla.coordinator.group.history.rebalances import Topics
from ottla.model.errors import ErrorCode

SESSION_MS = 10_000
HEARTBEAT_MS = 3000
POLL_MS = 60_000
COMMIT_MS = 5000


def subscription(topics: Iterable[str]) -> bytes:
    names = [name.encode() for name in topics]
    return struct.pack(">hi", 0, len(names)) + b"".join(struct.pack(">h", len(n)) + n for n in names) + b"\xff" * 4


def assignment(partitions: dict[str, list[int]]) -> bytes:
    body = b"".join(
        struct.pack(">h", len(topic)) + topic.encode() + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in partitions.items()
    )
    return struct.pack(">hi", 0, len(partitions)) + body + b"\xff" * 4


@dataclass(eq=False)
class Line:
    peer: str


@dataclass
class World:
    """A coordinator and its historian on one clock; everything else is scheduled."""

    seed: int
    topics: dict[str, int] = field(default_factory=lambda: {"orders": 6})

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.coordinator = Coordinator()
        self.historian = Historian(
            lambda: self.coordinator.now_ms, Topics(_name, lambda name: self.topics.get(name)), lambda *_: None
        )
        self.records: dict[bytes, bytes | None] = {}
        self._seen = 0
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._ports = count(40_000)
        self.clients: list[Client] = []

    @property
    def now(self) -> int:
        return self.coordinator.now_ms

    def after(self, ms: float, what: Callable[[], None]) -> None:
        heappush(self._due, (self.now + int(ms), next(self._order), what))

    def run(self, seconds: float) -> None:
        until = self.now + int(seconds * 1000)
        while self._due and self._due[0][0] <= until:
            at, _, what = heappop(self._due)
            self.coordinator.advance(max(at - self.now, 0))
            self.think()
            what()
            self.think()
        self.coordinator.advance(until - self.now)
        self.think()

    def stand_still(self, seconds: float) -> None:
        """The coordinator's node: nothing is heard and no alarm rings, and then first what is overdue."""
        self.coordinator.now_ms += int(seconds * 1000)
        self.historian.stood_still(int(seconds * 1000))

    def think(self) -> None:
        events = self.coordinator.events
        for event in events[self._seen :]:
            self.historian.note(event)
        if len(events) > self._seen:
            self._seen = len(events)
            self.write()

    def line(self) -> Line:
        return Line(f"10.0.0.1:{next(self._ports)}")

    def write(self) -> None:
        for _, records in self.historian.think():
            self.records.update(records)

    def entries(self) -> list[Entry]:
        self.think()
        self.write()
        told = [decode(value) for value in self.records.values() if value is not None]
        return sorted((each for each in told if not isinstance(each, Roll)), key=lambda entry: entry.number)

    def findings(self, since: int = 0) -> list[Finding]:
        return findings(self.entries(), since)

    def kinds(self, since: int = 0) -> dict[Kind, Finding]:
        return {finding.kind: finding for finding in self.findings(since)}

    def start(self, name: str, **settings: object) -> Client:
        client = Client(self, name, **settings)  # type: ignore[arg-type]
        self.clients.append(client)
        client.begin()
        return client

    def group(self, size: int, **settings: object) -> list[Client]:
        """A group that is there and has done some work."""
        clients = [self.start(f"worker-{number}", **settings) for number in range(size)]
        self.run(self.between(40, 70))
        return clients

    def between(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)


def _name(topic: Topic) -> str:
    return str(topic)


class Client:
    """As librdkafka: heartbeats by itself, commits what was polled, leaves when it is not polled."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        instance: str | None = None,
        session_ms: int = SESSION_MS,
        poll_ms: int = POLL_MS,
        reasons: bool = False,
        commits: bool = True,
        topics: tuple[str, ...] = ("orders",),
        assignor: str = "range",
    ) -> None:
        self.world, self.name, self.instance = world, name, instance
        self.session_ms, self.poll_ms, self.reasons, self.commits = session_ms, poll_ms, reasons, commits
        self.topics, self.assignor = topics, assignor
        self.id, self.generation = "", -1
        self.line = world.line()
        self.life = 0  # what was scheduled in a former life, or before a pause, does not happen
        self.is_paused = False
        self.polled_until: int | None = None  # busy since then
        self.rejoin_delay_ms = 0.0
        self._asked: Asked | None = None
        self._synced: Asked | None = None

    # -- what users do

    def begin(self) -> None:
        self._join()
        self._tick()
        self._commit_tick()

    def close(self, hang_up_ms: float = 200) -> None:
        if self.instance is None:
            self._leave("the consumer is being closed")
        self.world.after(self.world.between(1, hang_up_ms), self._hang_up)
        self._die()

    def kill(self) -> None:
        self._die()
        self.world.after(self.world.between(0, 50), lambda: self.world.historian.lost(self.line, self._end()))

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        if self.id:
            self._heartbeat()

    def be_busy(self, seconds: float) -> None:
        """The application does not call poll() for a while."""
        life = self.life
        began = self.world.now
        self.polled_until = began

        def too_long() -> None:
            if self.life == life and self.polled_until == began:
                self._leave("consumer poll timeout has expired.")
                self.id = ""

        def back() -> None:
            if self.life == life and self.polled_until == began:
                self.polled_until = None
                if not self.id:
                    self._join()

        if seconds * 1000 > self.poll_ms:
            self.world.after(self.poll_ms + self.world.between(0, 500), too_long)
        self.world.after(seconds * 1000, back)

    def subscribe(self, *topics: str) -> None:
        self.topics = topics
        self._join()

    def unsubscribe(self) -> None:
        self._leave("the consumer unsubscribed from all topics")
        self.id = ""

    # -- what it does by itself

    def _die(self) -> None:
        self.life += 1
        self.id = ""

    def _end(self) -> End:
        return self.world.random.choice([End.CLOSED, End.RESET])

    def _hang_up(self) -> None:
        self.world.historian.lost(self.line, End.CLOSED)

    def _leave(self, reason: str) -> None:
        if not self.id:
            return
        self._committed()
        self.world.coordinator.leave(Leaving(self.id, self.instance, reason if self.reasons else None))
        self.world.historian.left(GROUP, self.id, self.line)
        self.world.think()

    def _join(self, member_id: str | None = None) -> None:
        asked = self.id if member_id is None else member_id
        self._asked = self.world.coordinator.join(
            asked, instance_id=self.instance, client=self.name, session_ms=self.session_ms, rebalance_ms=self.poll_ms,
            protocols=((self.assignor, subscription(self.topics)),),
        )  # fmt: skip
        self.world.think()
        if asked:
            self.world.historian.heard(GROUP, asked, self.line)
        self._look()

    def _look(self) -> None:
        """Looks for answers, as they come later."""
        life = self.life
        if self._asked is not None and not self._asked.is_open:
            answer, self._asked = self._asked.answer, None
            if answer.error is ErrorCode.member_id_required:
                self._join(answer.member_id)
                return
            if answer.error is ErrorCode.none:
                self.id, self.generation = answer.member_id, answer.generation
                self.world.historian.heard(GROUP, self.id, self.line)
                shares = self._shares(answer) if answer.leader == self.id else None
                self._synced = self.world.coordinator.sync(self.id, self.generation, shares, instance_id=self.instance)
            elif answer.error is ErrorCode.fenced_instance_id:
                self._die()
            else:
                self._join("")
        if self._synced is not None and not self._synced.is_open:
            answer, self._synced = self._synced.answer, None
            if answer.error is ErrorCode.rebalance_in_progress:
                self._join()
            elif answer.error is not ErrorCode.none:
                self._join("")
        if self._asked is not None or self._synced is not None:
            self.world.after(self.world.between(5, 40), lambda: self._look() if self.life == life else None)

    def _shares(self, answer: object) -> dict[str, bytes]:
        members = sorted(member.member_id for member in answer.members)  # type: ignore[attr-defined]
        places = [(topic, number) for topic in sorted(self.world.topics) for number in range(self.world.topics[topic])]
        shares: dict[str, bytes] = {}
        for index, member in enumerate(members):
            own: dict[str, list[int]] = {}
            for topic, number in places[index :: len(members)]:
                own.setdefault(topic, []).append(number)
            shares[member] = assignment(own)
        return shares

    def _tick(self) -> None:
        life = self.life

        def tick() -> None:
            if self.life == life:
                if not self.is_paused and self.id and self._asked is None and self._synced is None:
                    self._heartbeat()
                self._tick()

        self.world.after(HEARTBEAT_MS * self.world.between(0.9, 1.1), tick)

    def _heartbeat(self) -> None:
        code = self.world.coordinator.heartbeat(self.id, self.generation, self.instance)
        self.world.think()
        self.world.historian.heard(GROUP, self.id, self.line)
        if code is ErrorCode.rebalance_in_progress:
            if self.polled_until is None:
                life = self.life
                self.world.after(self.rejoin_delay_ms, lambda: self._join() if self.life == life else None)
        elif code is ErrorCode.fenced_instance_id:
            self._die()
        elif code is not ErrorCode.none:
            self.id = ""
            if self.polled_until is None:
                self._join("")

    def _commit_tick(self) -> None:
        life = self.life

        def tick() -> None:
            if self.life == life:
                if not self.is_paused and self.id and self.polled_until is None:
                    self._committed()
                self._commit_tick()

        self.world.after(COMMIT_MS * self.world.between(0.9, 1.1), tick)

    def _committed(self) -> None:
        if self.commits and self.generation >= 0 and self.polled_until is None:
            self.world.coordinator.groups.heard(GROUP, self.id)
            self.world.historian.committed(GROUP, self.id, self.line)
