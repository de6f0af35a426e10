"""A coordinator of both kinds of groups, and classic members that say what real consumers say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from struct import pack, unpack_from
from typing import Any, TypeVar

from tests.coordinator.group.consumer import given
from tests.coordinator.group.consumer.given import GROUP, Parts

from ottla.coordinator.group.classic.embedded_protocol import read_assignment, write_assignment
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.requests import (
    Client,
    JoinAnswer,
    JoinRequest,
    Leaving,
    Protocol,
    SyncAnswer,
    SyncRequest,
)
from ottla.coordinator.group.migration.classic_requests import ClassicRequests
from ottla.coordinator.group.migration.moves import Rules
from ottla.coordinator.group.migration.policy import Policy
from ottla.coordinator.machine import Outcome
from ottla.model.errors import ErrorCode, KafkaError

R = TypeVar("R")
SESSION_MS = 10_000
REBALANCE_MS = 30_000
FIRST_MS = 6000
"""Until a first generation of several members begins."""
NONE = ErrorCode.none


def subscription(topics: Iterable[str], owned: Parts | None = None, version: int = 1, rack: str | None = None) -> bytes:
    names, owned = list(topics), owned or {}
    parts = [pack(">hi", version, len(names)), *map(_text, names), pack(">i", -1)]
    if version >= 1:
        parts.append(pack(">i", len(owned)))
        parts += [_text(topic) + pack(f">i{len(numbers)}i", len(numbers), *numbers) for topic, numbers in owned.items()]
    if version >= 2:
        parts.append(pack(">i", -1))
    if version >= 3:
        parts.append(pack(">h", -1) if rack is None else _text(rack))
    return b"".join(parts)


def _text(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()


class Coordinator(given.Coordinator):
    def __init__(self, policy: Policy = Policy.BIDIRECTIONAL, max_classic_size: int = 100, **more: Any) -> None:
        self._rules = Rules(policy, max_classic_size)
        super().__init__(**more)

    def _start(self, log: list[Any]) -> None:
        super()._start(log)
        self.groups.migrate(self.classic, self._rules)
        self.requests = ClassicRequests(self.classic, self.groups)

    def fail(self) -> None:
        """And those who decided learn of it, as they do from a shard."""
        held = [outcome for _, outcome in self._held]
        super().fail()
        for outcome in reversed(held):
            if outcome.undone is not None:
                outcome.undone(KafkaError(ErrorCode.coordinator_not_available, "not stored"))

    @property
    def classic_group(self) -> ClassicGroup:
        group = self.classic.get(GROUP)
        assert group is not None
        return group

    def is_classic(self) -> bool:
        assert self.classic.has(GROUP) != self.groups.has(GROUP)
        return self.classic.has(GROUP)

    def kinds(self, since: int) -> list[int]:
        """Types of records, negative for deletions."""
        kinds = [(unpack_from(">h", record.key)[0], record.value) for record in self.log[since:]]
        return [kind if value is not None else -kind for kind, value in kinds]

    def ask(self, operation: Callable[[Callable[[R], None]], Outcome[None]]) -> list[R]:
        """The answer comes into the list, perhaps later."""
        told: list[R] = []
        self.run(operation(told.append))
        return told


class ClassicMember:
    """As eager as it is told to be: `owned` is what it says that it owns when it joins."""

    def __init__(
        self,
        coordinator: Coordinator,
        instance_id: str | None = None,
        protocol: str = "range",
        topics: Iterable[str] = ("t",),
        version: int = 1,
    ) -> None:
        self.coordinator = coordinator
        self.instance_id = instance_id
        self.protocol = protocol
        self.topics = tuple(topics)
        self.version = version
        self.id = ""
        self.generation = -1
        self.owned: Parts = {}

    def say_join(self, **changed: Any) -> list[JoinAnswer]:
        metadata = subscription(self.topics, self.owned, self.version)
        request = JoinRequest(
            GROUP, self.id, self.instance_id, Client("classic", "/127.0.0.1"), "consumer",
            (Protocol(self.protocol, metadata),), SESSION_MS, REBALANCE_MS,
        )._replace(**changed)  # fmt: skip
        return self.coordinator.ask(lambda answer: self.coordinator.requests.join(request, answer))

    def join(self) -> JoinAnswer:
        (told,) = self.say_join()
        return self.take(told)

    def take(self, told: JoinAnswer) -> JoinAnswer:
        self.id = told.member_id or self.id
        if told.error is NONE:
            self.generation = told.generation
        return told

    def enter(self) -> None:
        """Into a consumer group: with an id, to its assignment."""
        if not self.id and self.instance_id is None:
            assert self.join().error is ErrorCode.member_id_required
        assert self.join().error is NONE
        assert self.sync().error is NONE

    def say_sync(self, shares: Mapping[str, Parts] | None = None, **changed: Any) -> list[SyncAnswer]:
        assignments = [(member_id, write_assignment(1, share)) for member_id, share in (shares or {}).items()]
        request = SyncRequest(
            GROUP, self.id, self.instance_id, self.generation, "consumer", self.protocol, assignments
        )._replace(**changed)
        return self.coordinator.ask(lambda answer: self.coordinator.requests.sync(request, answer))

    def sync(self, shares: Mapping[str, Parts] | None = None, **changed: Any) -> SyncAnswer:
        (told,) = self.say_sync(shares, **changed)
        return self.take_share(told)

    def take_share(self, told: SyncAnswer) -> SyncAnswer:
        if told.error is NONE:
            places = read_assignment(told.assignment).places
            self.owned = {topic: list(numbers) for topic, numbers in places.items()}
        return told

    def heartbeat(self, **changed: Any) -> ErrorCode:
        asked = {"member_id": self.id, "instance_id": self.instance_id, "generation": self.generation} | changed
        error: ErrorCode = self.coordinator.run(self.coordinator.requests.heartbeat(GROUP, **asked))
        return error

    def leave(self, member_id: str | None = None) -> ErrorCode:
        leaving = [Leaving(self.id if member_id is None else member_id, self.instance_id)]
        (error,) = self.coordinator.run(self.coordinator.requests.leave(GROUP, leaving)).errors
        found: ErrorCode = error
        return found


def classic_group(coordinator: Coordinator, *members: ClassicMember, **shares: Parts) -> None:
    """A stable one, in generation 1; the first leads, and `a`, `b` and so on say who gets what."""
    waiting = []
    for member in members:
        if member.instance_id is None:
            member.join()
        waiting.append(member.say_join())
    coordinator.advance(FIRST_MS)
    for member, (told,) in zip(members, waiting, strict=True):
        member.take(told)
    by_id = {member.id: shares.get(name, {}) for member, name in zip(members, "abcdef", strict=False)}
    syncing = [member.say_sync() for member in members[1:]]
    members[0].sync(by_id)
    for member, (synced,) in zip(members[1:], syncing, strict=True):
        member.take_share(synced)


def code_of(ask: Callable[[], Any]) -> tuple[ErrorCode, str | None]:
    try:
        ask()
    except KafkaError as error:
        return error.code, error.message
    raise AssertionError("no error")
