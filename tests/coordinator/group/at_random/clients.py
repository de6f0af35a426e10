"""Clients as they are: they ask one thing at a time over a network that loses things, pause, crash and come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from tests.coordinator.group.at_random.embedded import Claim, read_claim, write_claim
from tests.coordinator.group.at_random.world import GROUP, Place, World

from ottla.coordinator.group.assignors.catalogue import assign
from ottla.coordinator.group.assignors.spec import GroupSpec, MemberSpec
from ottla.coordinator.group.classic.embedded_protocol import read_assignment, write_assignment
from ottla.coordinator.group.classic.requests import (
    Client,
    JoinAnswer,
    JoinedMember,
    JoinRequest,
    Leaving,
    Protocol,
    SyncAnswer,
    SyncRequest,
)
from ottla.coordinator.group.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.group.offsets import Commit, Member
from ottla.model.errors import ErrorCode

SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 20_000
HEARTBEAT_MS: Final = 1_000
GIVES_UP_MS: Final = 4_000
NONE: Final = ErrorCode.none
FENCED: Final = (
    ErrorCode.unknown_member_id,
    ErrorCode.fenced_member_epoch,
    ErrorCode.fenced_instance_id,
    ErrorCode.illegal_generation,
    ErrorCode.group_id_not_found,
    ErrorCode.unknown_server_error,
)


class AnyClient:
    """`owned` is what it works on, by its own belief."""

    def __init__(self, world: World, number: int, instance_id: str | None, topics: frozenset[str]) -> None:
        self.world = world
        self.name = f"client-{number}"
        self.instance_id = instance_id
        self.topics = topics
        self.member_id = ""
        self.epoch = -1
        self.owned: frozenset[Place] = frozenset()
        self._owned_in = -1
        self.is_up = True
        self.former: list[tuple[str, int, Place]] = []
        """Under which id and in which epoch it once had what."""
        self._life = 0  # what belongs to an earlier one does not concern it any more
        self._busy_until_ms = 0.0
        self._next()

    @property
    def client(self) -> Client:
        return Client(self.name, "/127.0.0.1")

    def has_heard_of(self, epoch: int) -> bool:
        """Whether it knows what it has in this epoch, rather than what it had before."""
        return self.epoch == epoch

    # -- its loop

    def step(self) -> None:
        raise NotImplementedError

    def _next(self, delay_ms: float = 0) -> None:
        life = self._life

        def go_on() -> None:
            if self._life == life and self.is_up:
                if self.world.time.now_ms < self._busy_until_ms:
                    self._next(self._busy_until_ms - self.world.time.now_ms)
                else:
                    self.step()

        self.world.time.after(delay_ms, go_on)

    def pause(self, for_ms: float) -> None:
        """Garbage collection, a long poll, SIGSTOP: nothing is sent, and nothing is heard."""
        self._busy_until_ms = self.world.time.now_ms + for_ms

    def crash(self) -> None:
        self._life += 1
        self.is_up = False
        self._forget()

    def restart(self) -> None:
        self._life += 1
        self.is_up = True
        self._forget()
        self._next()

    def _forget(self) -> None:
        self.owned = frozenset()
        self.member_id, self.epoch = "", -1

    def _own(self, places: frozenset[Place]) -> None:
        self.former += [(self.member_id, self._owned_in, place) for place in self.owned - places]
        self.owned, self._owned_in = places, self.epoch

    # -- the network

    def ask(self, send: Callable[[Callable[[Any], None], Callable[[ErrorCode], None]], None], heard: Any) -> None:
        """`send` may reach the coordinator; `heard` is called once: with an answer, an error code, or None."""
        world, life, open_ = self.world, self._life, [True]

        def once(what: Any) -> None:
            if open_[0] and self._life == life and self.is_up:
                open_[0] = False
                if world.time.now_ms < self._busy_until_ms:
                    world.time.after(self._busy_until_ms - world.time.now_ms, lambda: self._late(life, heard, what))
                else:
                    heard(what)

        def answered(what: Any) -> None:
            if world.calm or world.random.random() > 0.05:
                world.time.after(world.random.randint(0, 20), lambda: once(what))

        if world.calm or world.random.random() > 0.05:
            world.time.after(world.random.randint(0, 20), lambda: send(answered, answered))
        world.time.after(self._patience_ms(), lambda: once(None))

    def _late(self, life: int, heard: Any, what: Any) -> None:
        if self._life == life and self.is_up:
            heard(what)

    def _patience_ms(self) -> float:
        return GIVES_UP_MS

    # -- offsets

    def commit(self, member_id: str, epoch: int, place: Place, number: int, heard: Callable[[Any], None]) -> None:
        topic, partition = place
        row = Commit(topic, partition, number, topic_id=self.world.image.topic_ids[topic])
        member = Member(GROUP, member_id, self.instance_id, epoch)
        self.ask(
            lambda on_reply, on_error: self.world.write(
                lambda machine: machine.offsets.commit(member, [row], 9), on_reply, on_error
            ),
            heard,
        )


class Consumer(AnyClient):
    """`group.protocol=consumer`. It chooses its id itself, and keeps it until it is started again."""

    def __init__(self, world: World, number: int, instance_id: str | None, topics: frozenset[str]) -> None:
        self._told: frozenset[Place] = frozenset()
        super().__init__(world, number, instance_id, topics)

    def _forget(self) -> None:
        super()._forget()
        self._told = frozenset()

    def step(self) -> None:
        if not self.member_id:
            self.member_id, self.epoch = str(UUID(int=self.world.random.getrandbits(128))), 0
        joins = self.epoch == 0
        says_everything = joins or self.world.random.random() < 0.3
        request = HeartbeatRequest(
            GROUP,
            self.member_id,
            self.epoch,
            self.client,
            self.instance_id,
            None,
            REBALANCE_MS if says_everything else -1,
            self.topics if says_everything else None,
            None,
            None,
            self._by_id() if says_everything or self.world.random.random() < 0.5 or self._told != self.owned else None,
        )
        self.ask(
            lambda on_reply, on_error: self.world.write(
                lambda machine: machine.consumer.heartbeat(request), on_reply, on_error
            ),
            self._heard,
        )

    def _by_id(self) -> dict[UUID, list[int]]:
        ids: dict[UUID, list[int]] = {}
        for topic, number in sorted(self.owned):
            ids.setdefault(self.world.image.topic_ids[topic], []).append(number)
        return ids

    def _heard(self, what: Any) -> None:
        if isinstance(what, HeartbeatAnswer):
            self._take(what)
            return
        if what in FENCED:
            self._own(frozenset())
            self._told = frozenset()
            self.epoch = 0
        self._next(self.world.random.randint(50, 500) if what is not None else 0)

    def _take(self, answer: HeartbeatAnswer) -> None:
        if answer.epoch < 0:
            return
        self.epoch = answer.epoch
        if answer.assigned is None:
            self._next(HEARTBEAT_MS)
            return
        topics = self.world.image.topics
        self._told = frozenset((topics[t].name, n) for t, numbers in answer.assigned.items() for n in numbers)
        if self.owned <= self._told:
            self._own(self._told)
            self._next(HEARTBEAT_MS)
            return
        life, told = self._life, self._told

        def revoked() -> None:
            if self._life == life and self.is_up and self._told == told:
                self._own(told)
                self._next()

        self.world.time.after(self.world.random.choice([0, 10, 500, 3000]), revoked)  # its last commits take a while

    def leave(self) -> None:
        """Not a word of it may arrive."""
        if self.member_id and self.epoch > 0:
            epoch = -2 if self.instance_id is not None and self.world.random.random() < 0.7 else -1
            request = HeartbeatRequest(GROUP, self.member_id, epoch, self.client, self.instance_id)
            self.ask(
                lambda on_reply, on_error: self.world.write(
                    lambda machine: machine.consumer.heartbeat(request), on_reply, on_error
                ),
                lambda _: None,
            )
        self.crash()


class Classic(AnyClient):
    """`group.protocol=classic`, eager or cooperative; whoever is told to lead assigns."""

    def __init__(
        self, world: World, number: int, instance_id: str | None, topics: frozenset[str], *, cooperative: bool
    ) -> None:
        self.cooperative = cooperative
        self.is_joining = True
        """Since it was told to, and until it has its assignment."""
        self._waits = False
        self._leads_over = -1  # the metadata's offset for which it assigned
        super().__init__(world, number, instance_id, topics)

    def _forget(self) -> None:
        super()._forget()
        self.is_joining, self._waits, self._leads_over = True, False, -1

    def step(self) -> None:
        if self.is_joining:
            self._join()
        elif 0 <= self._leads_over < self.world.image.offset:
            self._join_again()
        else:
            self.ask(
                lambda on_reply, on_error: self.world.write(
                    lambda machine: machine.members.heartbeat(GROUP, self.member_id, self.instance_id, self.epoch),
                    on_reply,
                    on_error,
                ),
                self._heard_heartbeat,
            )

    def has_heard_of(self, epoch: int) -> bool:
        return super().has_heard_of(epoch) and not self.is_joining

    def _patience_ms(self) -> float:
        return REBALANCE_MS + 5000 if self._waits else GIVES_UP_MS

    def _heard_heartbeat(self, what: Any) -> None:
        if what is ErrorCode.rebalance_in_progress:
            self._join_again()
        elif what in FENCED:
            self._lost(what)
        else:
            self._next(HEARTBEAT_MS)

    def _lost(self, why: ErrorCode) -> None:
        self._own(frozenset())
        self.is_joining, self._leads_over = True, -1
        if why is not ErrorCode.illegal_generation:
            self.member_id = ""
        self.epoch = -1
        self._next(self.world.random.randint(50, 500))

    def _join_again(self) -> None:
        self.is_joining, self._leads_over = True, -1
        self._next()

    # -- joining

    def _join(self) -> None:
        if not self.cooperative:
            self._own(frozenset())
        claim = write_claim(Claim(self.topics, self.owned, self.epoch))
        name = "cooperative-sticky" if self.cooperative else "range"
        request = JoinRequest(
            GROUP, self.member_id, self.instance_id, self.client, "consumer", (Protocol(name, claim),), SESSION_MS,
            REBALANCE_MS,
        )  # fmt: skip
        self._waits = True
        self.ask(
            lambda on_reply, on_error: self.world.write(
                lambda machine: machine.members.join(request, on_reply), lambda _: None, on_error
            ),
            self._heard_join,
        )

    def _heard_join(self, what: Any) -> None:
        self._waits = False
        if not isinstance(what, JoinAnswer):
            if what in FENCED:
                self._lost(what)
            else:
                self._next(self.world.random.randint(50, 500))
        elif what.error is ErrorCode.member_id_required:
            self.member_id = what.member_id
            self._next()
        elif what.error in FENCED:
            self._lost(what.error)
        elif what.error is not NONE:
            self._next(self.world.random.randint(50, 500))
        else:
            self.member_id, self.epoch = what.member_id, what.generation
            shares: list[tuple[str, bytes]] = []
            if what.leader == what.member_id:
                # a leader that has come back does not know for which metadata it had assigned: it joins again
                self._leads_over = 0 if what.skip_assignment else self.world.image.offset
                shares = [] if what.skip_assignment else self._share_out(list(what.members))
            self._sync(shares)

    def _sync(self, shares: list[tuple[str, bytes]]) -> None:
        name = "cooperative-sticky" if self.cooperative else "range"
        request = SyncRequest(GROUP, self.member_id, self.instance_id, self.epoch, "consumer", name, shares)
        self._waits = True
        self.ask(
            lambda on_reply, on_error: self.world.write(
                lambda machine: machine.members.sync(request, on_reply), lambda _: None, on_error
            ),
            self._heard_sync,
        )

    def _heard_sync(self, what: Any) -> None:
        self._waits = False
        error = what.error if isinstance(what, SyncAnswer) else what
        if error in FENCED:
            self._lost(error)
            return
        if not isinstance(what, SyncAnswer) or error is not NONE:
            self._next(self.world.random.randint(50, 500))
            return
        self.is_joining = False
        places = read_assignment(what.assignment).places
        told = frozenset((topic, number) for topic, numbers in places.items() for number in numbers)
        if self.owned <= told:
            self._own(told)
            self._next(HEARTBEAT_MS)
        else:  # what it gives up, others can have only when it says so
            self._own(told)
            self._join_again()

    def _share_out(self, members: list[JoinedMember]) -> list[tuple[str, bytes]]:
        """Sticky; a cooperative leader gives nothing that another still claims."""
        image = self.world.image
        claims = {member.member_id: read_claim(member.metadata) for member in members}
        claimed: dict[Place, tuple[int, str]] = {}
        for member_id, claim in claims.items():
            for place in claim.owned:
                claimed[place] = max(claimed.get(place, (-2, "")), (claim.generation, member_id))
        owners = {place: member_id for place, (_, member_id) in claimed.items()}
        specs = {
            member_id: MemberSpec(
                frozenset(image.topic_ids[topic] for topic in claim.topics),
                _gathered(self.world, (place for place, owner in owners.items() if owner == member_id)),
            )
            for member_id, claim in claims.items()
        }
        partitions = {topic.id: len(topic.partitions) for topic in image.topics.values()}
        assigned = assign("uniform", GroupSpec(specs, partitions))
        shares = []
        for member_id, assignment in assigned.items():
            places: dict[str, list[int]] = {}
            for topic_id, numbers in assignment.items():
                topic = image.topics[topic_id].name
                free = [n for n in sorted(numbers) if self._may_have(member_id, (topic, n), claims)]
                if free:
                    places[topic] = free
            shares.append((member_id, write_assignment(1, places)))
        return shares

    def _may_have(self, member_id: str, place: Place, claims: dict[str, Claim]) -> bool:
        return not any(place in claim.owned for other, claim in claims.items() if other != member_id)

    def leave(self) -> None:
        if self.member_id:
            member_id = "" if self.instance_id is not None and self.world.random.random() < 0.3 else self.member_id
            leaving = [Leaving(member_id, self.instance_id)]
            self.ask(
                lambda on_reply, on_error: self.world.write(
                    lambda machine: machine.members.leave(GROUP, leaving), on_reply, on_error
                ),
                lambda _: None,
            )
        self.crash()


def _gathered(world: World, places: Any) -> dict[UUID, frozenset[int]]:
    found: dict[UUID, set[int]] = {}
    for topic, number in places:
        found.setdefault(world.image.topic_ids[topic], set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}
