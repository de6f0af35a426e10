"""Virtual time and a network that delays, loses, doubles, reorders and cuts. A seed decides everything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random
from uuid import UUID

from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.messages import Destination, Request, Response
from ottla.raft.quorum_state import NOBODY
from ottla.raft.settings import QuorumSettings
from ottla.raft.voters import Endpoint, ReplicaKey, VersionRange, VoterNode, VoterSet
from ottla.sim.raft.checks import Checks, Violation
from ottla.sim.raft.member import Member
from ottla.sim.raft.storage import Snapshot, Storage

_SETTINGS = QuorumSettings(fetch_snapshot_max_bytes=64)


@dataclass(slots=True)
class Weather:
    """How the network behaves."""

    fastest_ms: int = 1
    slowest_ms: int = 8
    loss: float = 0.0
    duplication: float = 0.0
    silence: float = 0.3
    """How often a lost request is found lost only by its timeout, not by a closed connection."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A request on its way, and where its answer belongs."""

    asker: int
    life: int
    to: Destination
    correlation_id: int
    request: Request


class World:
    def __init__(
        self,
        seed: int,
        voters: int = 3,
        observers: int = 0,
        *,
        dynamic: bool = True,
        settings: QuorumSettings = _SETTINGS,
    ) -> None:
        self.random = Random(seed)
        self.settings = settings
        self.now = 0
        self.weather = Weather()
        self.cut: set[tuple[int, int]] = set()
        """Nothing gets from the first to the second."""
        self.is_steady = False
        """Disks take a millisecond each time: for stories that are read."""
        self.down_for_ms = 4000
        self.on_leader: Callable[[Member], None] = lambda leader: None
        self.counts: Counter[str] = Counter()
        self.lines: list[str] | None = None
        self.offered: dict[OffsetAndEpoch, Snapshot] = {}
        self.members: dict[int, Member] = {}
        self.replaced: list[Member] = []
        """Disks that are gone. What they said before counts all the same."""
        self.checks = Checks(lambda: [*self.members.values(), *self.replaced])
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._wakes: dict[int, int] = {}
        nodes = [self.node(i) for i in range(1, voters + observers + 1)]
        among = VoterSet.of(nodes[:voters])
        self.bootstrap_voters = among if dynamic else None
        self.static_voters = (
            VoterSet() if dynamic else VoterSet.static(among.ids, {i: self.endpoint(i) for i in among.ids})
        )
        self.bootstrap = [Destination(-1 - i, f"n{i}", 9093) for i in range(1, voters + observers + 1)]
        for node in nodes:
            self.members[node.key.id] = Member(self, node, Storage(node.key.directory_id))
        self._value = 0

    def endpoint(self, id: int) -> Endpoint:
        return Endpoint("CONTROLLER", f"n{id}", 9093)

    def node(self, id: int, incarnation: int = 0) -> VoterNode:
        key = ReplicaKey(id, UUID(int=id * 1000 + incarnation + 100))
        return VoterNode(key, (self.endpoint(id),), VersionRange(0, 1))

    # -- time

    def later(self, delay: int, action: Callable[[], None]) -> None:
        heappush(self._queue, (self.now + delay, next(self._order), action))

    def wake_at(self, member: Member, deadline: int) -> None:
        if deadline > self.now + 1_000_000 or self._wakes.get(member.id) == deadline:
            return
        self._wakes[member.id] = deadline
        life = member.life

        def wake() -> None:
            if self._wakes.get(member.id) == deadline and member.life == life:
                del self._wakes[member.id]
                member.tick()

        self.later(max(deadline - self.now, 0), wake)

    def run_until(self, time: int, condition: Callable[[], bool] = lambda: False) -> bool:
        """True as soon as the condition holds, which is looked at after each event."""
        while self._queue and self._queue[0][0] <= time:
            self.now, _, action = heappop(self._queue)
            action()
            if condition():
                return True
        self.now = max(self.now, time)
        return condition()

    def run_for(self, duration: int, condition: Callable[[], bool] = lambda: False) -> bool:
        return self.run_until(self.now + duration, condition)

    # -- members

    def start_all(self) -> None:
        for member in self.members.values():
            if not member.is_up:
                self.start(member)

    def start(self, member: Member) -> None:
        self._wakes.pop(member.id, None)
        self.note(f"n{member.id} starts")
        member.start()

    def restart_later(self, member: Member) -> None:
        life = member.life
        self.later(
            self.random.randint(10, self.down_for_ms), lambda: self.start(member) if member.life == life else None
        )

    def add_member(self, id: int, incarnation: int = 0) -> Member:
        """A new node, or an old one whose disk was replaced."""
        node = self.node(id, incarnation)
        member = Member(self, node, Storage(node.key.directory_id))
        before = self.members.get(id)
        if before is not None:
            self.replaced.append(before)
            before.is_up = False
            before.life += 1
            member.life = before.life
        self.members[id] = member
        return member

    @property
    def leader(self) -> Member | None:
        """The one that leads in the latest epoch."""
        leading = [member for member in self.members.values() if member.is_up and member.quorum.is_leader]
        return max(leading, key=lambda member: member.quorum.epoch, default=None)

    def propose(self, member: Member, records: int = 1) -> None:
        self._value += 1
        self.counts["proposals"] += 1
        member.propose(b"v%d" % self._value, records)

    # -- the network

    def sync_time(self) -> int:
        if self.is_steady:
            return 1
        return self.random.randint(1, 12) if self.random.random() < 0.95 else self.random.randint(50, 400)

    def send(self, sender: Member, to: Destination, correlation_id: int, request: Request) -> None:
        call = _Call(sender.id, sender.life, to, correlation_id, request)
        target = int(to.host[1:])
        self.note(f"n{sender.id} -> n{target} {brief(request)}")
        self._deliver(sender.id, target, lambda: self._arrive(target, call), lambda: self._answer(call, None))

    def _arrive(self, target: int, call: _Call) -> None:
        member = self.members.get(target)
        if member is None or not member.is_up:
            self.later(self._delay(), lambda: self._answer(call, None))
            return
        member.receive((target, member.life, call), call.request)

    def reply(self, sender: Member, token: object, response: Response) -> None:
        assert isinstance(token, tuple)
        call = token[2]
        if call is None:
            self.counts[f"change {response.error.name}"] += 1
            self.note(f"n{sender.id} answers: {brief(response)}")
            return
        self.note(f"n{sender.id} => n{call.asker} {brief(response)}")
        self._deliver(sender.id, call.asker, lambda: self._answer(call, response), lambda: self._answer(call, None))

    def _answer(self, call: _Call, response: Response | None) -> None:
        member = self.members[call.asker]
        if member.is_up and member.life == call.life:
            member.answered(call.to, call.correlation_id, response)

    def _deliver(self, source: int, target: int, arrive: Callable[[], None], fail: Callable[[], None]) -> None:
        weather = self.weather
        if (source, target) in self.cut or (weather.loss and self.random.random() < weather.loss):
            self.counts["messages lost"] += 1
            if self.random.random() >= weather.silence:
                self.later(self._delay(), fail)
            return
        self.later(self._delay(), arrive)
        if weather.duplication and self.random.random() < weather.duplication:
            self.later(self._delay() * 4, arrive)

    def _delay(self) -> int:
        return self.random.randint(self.weather.fastest_ms, self.weather.slowest_ms)

    def ask(self, member: Member, request: Request) -> None:
        """As an administrator would; the answer is counted."""
        self.note(f"admin -> n{member.id} {brief(request)}")
        member.receive((member.id, member.life, None), request)

    # -- afterwards

    def note(self, line: str) -> None:
        if self.lines is not None:
            self.lines.append(f"{self.now:>6} {line}")

    def heal(self) -> None:
        self.weather = Weather()
        self.cut.clear()
        for member in self.members.values():
            member.dies_in = None

    def must_recover(self, within_ms: int) -> None:
        """Everybody is up and the network is well: somebody leads, and what is proposed now gets to everybody."""
        self.heal()
        self.start_all()
        end = self.now + within_ms
        goal: tuple[int, int] | None = None
        while self.now < end:
            leader = self.leader
            if (
                leader is not None
                and leader.quorum.high_watermark >= 0
                and (goal is None or goal[0] != leader.quorum.epoch)
            ):
                self.propose(leader)
                goal = (leader.quorum.epoch, leader.storage.now.end_offset)
            self.run_for(50)
            self.start_all()
            if goal is not None and all(member.applied >= goal[1] for member in self.members.values()):
                return
        told = ", ".join(
            f"n{m.id} {m.quorum.role.value} epoch {m.quorum.epoch} leader {m.quorum.leader_id} applied {m.applied} of "
            f"{m.storage.now.end_offset}"
            for m in self.members.values()
        )
        raise Violation(f"no progress within {within_ms} ms after all was well again: {told}")


def brief(message: Request | Response) -> str:
    """A message in a few words, with what is not as usual."""
    name = type(message).__name__
    words: list[str] = []
    for field in message.__slots__:
        value = getattr(message, field)
        if (
            field in ("cluster_id", "max_bytes", "max_wait_ms", "log_start_offset", "voter")
            and name != "AddVoterRequest"
        ):
            continue
        if value in (None, (), False, b"") or getattr(value, "name", "") == "none" or value == NOBODY:
            continue
        words.append(f"{field}={_short(value)}")
    return " ".join([name, *words])


def _short(value: object) -> str:
    match value:
        case bool():
            return "yes"
        case ReplicaKey(id=id):
            return str(id)
        case tuple() if hasattr(value, "epoch") and hasattr(value, "offset"):
            return f"{value.offset}@{value.epoch}"
        case tuple() if hasattr(value, "epoch"):
            return f"{value.id}@{value.epoch}"  # type: ignore[attr-defined]
        case tuple():
            return "[" + " ".join(_short(item) for item in value) + "]"
        case bytes():
            return f"{len(value)}B"
    if hasattr(value, "base_offset"):
        return f"{value.base_offset}..{value.next_offset - 1}@{value.epoch}"  # type: ignore[attr-defined]
    return str(getattr(value, "name", value))
