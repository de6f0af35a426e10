"""Classic groups on virtual time: a coordinator whose log is a list, and members that ask it things."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Any

from ottla.coordinator.group.classic.core import Limits, Surroundings
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.groups import ClassicGroups
from ottla.coordinator.group.classic.requests import (
    Client,
    JoinAnswer,
    JoinRequest,
    Leaving,
    Protocol,
    SyncAnswer,
    SyncRequest,
)
from ottla.coordinator.group.events import Event
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.model.errors import ErrorCode, KafkaError

GROUP = "group"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_MS = 3000
START_MS = 1_000_000


class Alarms:
    """Alarms by name on virtual time."""

    def __init__(self, clock: Coordinator) -> None:
        self._clock = clock
        self._order = count()
        self._heap: list[tuple[float, int, object]] = []
        self._armed: dict[object, tuple[int, Callable[[], Outcome[Any]]]] = {}

    def set(self, name: object, delay_ms: float, operation: Callable[[], Outcome[Any]]) -> None:
        number = next(self._order)
        self._armed[name] = (number, operation)
        heappush(self._heap, (self._clock.now_ms + delay_ms, number, name))

    def cancel(self, name: object) -> None:
        self._armed.pop(name, None)

    def due(self, until_ms: float) -> tuple[float, Callable[[], Outcome[Any]]] | None:
        while self._heap and self._heap[0][0] <= until_ms:
            at, number, name = heappop(self._heap)
            armed = self._armed.get(name)
            if armed is not None and armed[0] == number:
                del self._armed[name]
                return at, armed[1]
        return None

    @property
    def names(self) -> list[object]:
        return list(self._armed)


class Asked:
    """A question to which the answer may come later."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self._has_failed = False

    def __call__(self, answer: Any) -> None:
        if not self._has_failed:
            self.answers.append(answer)

    def fail(self, answer: Any) -> None:
        """The runtime says so where the machine does not: what the question did was not stored."""
        if self.is_open:
            self.answers.append(answer)
        self._has_failed = True

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"{len(self.answers)} answers"
        return self.answers[0]

    @property
    def is_open(self) -> bool:
        return not self.answers

    @property
    def error(self) -> ErrorCode:
        error: ErrorCode = self.answer.error
        return error


class Coordinator:
    """Commits at once, unless told to hold; then `commit` or `fail` decides."""

    def __init__(self, log: Iterable[StoredRecord] = (), now_ms: int = START_MS, **limits: int) -> None:
        self.now_ms: int = now_ms
        self.limits = Limits(**{"initial_rebalance_delay_ms": INITIAL_MS, **limits})
        self.log: list[StoredRecord] = []
        self.events: list[Event] = []
        self.holds = False
        self._held: list[tuple[int, Outcome[Any], Callable[[ErrorCode], None]]] = []
        self._ids = count(1)
        self._start(list(log))

    def _start(self, log: list[StoredRecord]) -> None:
        self.timeline = Timeline()
        self.alarms = Alarms(self)
        around = Surroundings(
            self.alarms, lambda: self.now_ms, lambda: f"id{next(self._ids)}", self.limits, self.events.append
        )
        self.groups = ClassicGroups(self.timeline, around)
        self.log = []
        for record in log:
            self._replay(record)
        self.timeline.commit(len(self.log))
        self.groups.started()

    def restart(self, **limits: int) -> None:
        """Another one takes over, with nothing but what was committed."""
        self.fail(ErrorCode.not_coordinator)
        self.groups.stopped()
        if limits:
            self.limits = Limits(**{"initial_rebalance_delay_ms": INITIAL_MS, **limits})
        self._start(self.log)

    def _replay(self, record: StoredRecord) -> None:
        self.timeline.offset = len(self.log)
        self.groups.replay(record)
        self.log.append(record)

    def run(self, outcome: Outcome[Any], failed: Callable[[ErrorCode], None] = lambda code: None) -> Any:
        base = len(self.log)
        for record in outcome.records:
            self._replay(record)
        self._held.append((base, outcome, failed))
        if not self.holds:
            self.commit()
        return outcome.reply

    def commit(self) -> None:
        held, self._held = self._held, []
        self.timeline.commit(len(self.log))
        for _, outcome, _ in held:
            if outcome.committed is not None:
                outcome.committed()

    def fail(self, code: ErrorCode) -> None:
        """All that is held has not happened."""
        held, self._held = self._held, []
        if held:
            base = held[0][0]
            self.timeline.undo(base)
            del self.log[base:]
        for _, outcome, failed in reversed(held):
            if outcome.undone is not None:
                outcome.undone(KafkaError(code))
            failed(code)

    def advance(self, ms: int) -> None:
        until = self.now_ms + ms
        while (due := self.alarms.due(until)) is not None:
            self.now_ms = max(self.now_ms, int(due[0]))
            self.run(due[1]())
        self.now_ms = until

    # -- what members ask

    def join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        client: str = "client",
        protocol_type: str = "consumer",
        protocols: Iterable[tuple[str, bytes]] = (("range", b"r"),),
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        takes_id_first: bool = True,
        can_skip_assignment: bool = True,
        reason: str | None = None,
    ) -> Asked:
        asked = Asked()
        request = JoinRequest(
            group_id, member_id, instance_id, Client(client, "/127.0.0.1"), protocol_type,
            tuple(Protocol(*protocol) for protocol in protocols), session_ms, rebalance_ms, takes_id_first,
            can_skip_assignment, reason,
        )  # fmt: skip
        self.run(self.groups.join(request, asked), lambda code: asked.fail(JoinAnswer(code)))
        return asked

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **values: Any
    ) -> Asked:  # fmt: skip
        asked = Asked()
        given = {"group_id": GROUP, "instance_id": None, "assignments": tuple((assignments or {}).items())} | values
        request = SyncRequest(member_id=member_id, generation=generation, **given)
        self.run(self.groups.sync(request, asked), lambda code: asked.fail(SyncAnswer(code)))
        return asked

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        code: ErrorCode = self.run(self.groups.heartbeat(GROUP, member_id, instance_id, generation))
        return code

    def leave(self, *leaving: Leaving | str) -> list[ErrorCode]:
        who = [Leaving(one) if isinstance(one, str) else one for one in leaving]
        return list(self.run(self.groups.leave(GROUP, who)).errors)

    def commit_offsets(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        return self.groups.check_commit(GROUP, member_id, instance_id, generation)

    # -- shortcuts

    @property
    def group(self) -> ClassicGroup:
        group = self.groups.get(GROUP)
        assert group is not None
        return group

    @property
    def state(self) -> str:
        return self.groups.describe(GROUP).state

    def noted(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def new_member(self, **values: Any) -> tuple[str, Asked]:
        """With its id, waiting to be in."""
        if values.get("instance_id") is not None:
            asked = self.join(**values)
            return self.group.instances[values["instance_id"]], asked
        first: JoinAnswer = self.join(**values).answer
        assert first.error is ErrorCode.member_id_required, first
        return first.member_id, self.join(first.member_id, **values)

    def stable(self, members: int = 1, **values: Any) -> list[str]:
        """A group of so many, each with its own name for an assignment; the first leads."""
        joined = [self.new_member(**values) for _ in range(members)]
        self.advance(2 * INITIAL_MS)
        return self.share(joined)

    def share(self, joined: list[tuple[str, Asked]]) -> list[str]:
        ids = [member_id for member_id, _ in joined]
        answers: list[JoinAnswer] = [asked.answer for _, asked in joined]
        assert {answer.error for answer in answers} == {ErrorCode.none}, answers
        (leader,) = {answer.leader for answer in answers}
        (generation,) = {answer.generation for answer in answers}
        shares = {member_id: member_id.encode() for member_id in ids}
        synced = [
            self.sync(member_id, generation, shares if member_id == leader else None)
            for member_id in sorted(ids, key=leader.__eq__)
        ]
        told: list[SyncAnswer] = [asked.answer for asked in synced]
        assert {answer.error for answer in told} == {ErrorCode.none}, told
        return ids
