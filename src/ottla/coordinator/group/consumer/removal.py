"""How members go: they leave, their session runs out, or they do not give up their partitions in time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from ottla.coordinator.group.consumer.core import Core
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.members import AWAY, Member, MemberState
from ottla.coordinator.group.consumer.records import (
    PATTERN,
    GroupEpoch,
    current_record,
    deletion,
    group_record,
    member_deletions,
)
from ottla.coordinator.group.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.group.events import (
    Cause,
    EpochBumped,
    GroupEmptied,
    MemberExpired,
    MemberFenced,
    MemberLeft,
    RevocationMissed,
    StaticMemberWentAway,
    SyncsMissed,
)
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.model.errors import ErrorCode, KafkaError

R = TypeVar("R")


class Removal:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._awaited: set[object] = set()  # alarms for classic members who have been told to join

    # -- a heartbeat that says so

    def leave(self, request: HeartbeatRequest) -> Outcome[HeartbeatAnswer]:
        group = self._core.group(request.group_id)
        answer = HeartbeatAnswer(request.member_id, request.epoch)
        if request.instance_id is None:
            member = known_member(group, request.member_id)
        else:
            member = self.known_static_member(group, request.member_id, request.instance_id, "leave")
            if request.epoch == AWAY:
                return self._leave_for_a_while(group, member, answer)
        self._core.note(MemberLeft, group, group.epoch, member.id, member.instance_id, member.client_id, None, False)
        return self.remove(group, (member,), Cause.MEMBER_LEFT, answer)

    def _leave_for_a_while(
        self, group: ConsumerGroup, member: Member, answer: HeartbeatAnswer
    ) -> Outcome[HeartbeatAnswer]:
        """A static member keeps what it has until its session runs out; in no epoch may it commit for it."""
        assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
        away = member._replace(epoch=AWAY, assigned=assigned, revoking={})
        self._core.note(StaticMemberWentAway, group, group.epoch, member.instance_id, member.id)
        return Outcome(answer, [current_record(group.id, away)])

    def known_static_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str, operation: str
    ) -> Member:  # fmt: skip
        member = group.static_member(instance_id)
        if member is None:
            raise KafkaError(ErrorCode.unknown_member_id, f"Instance id {instance_id} is unknown.")
        if member.id != member_id:
            self._core.note(MemberFenced, group, group.epoch, instance_id, member_id, operation)
            raise KafkaError(
                ErrorCode.fenced_instance_id,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {member.id}.",
            )
        return member

    # -- time that is up

    def renew_session(self, group: ConsumerGroup, member: Member) -> None:
        """A classic member has a session of its own length."""
        group_id, member_id, classic = group.id, member.id, member.classic
        timeout_ms = self._core.settings(group_id).session_timeout_ms if classic is None else classic.session_timeout_ms

        def expire() -> Outcome[None]:
            found = self._find(group_id, member_id)
            if found is None:
                return Outcome(None)
            group, member = found
            self._core.note(
                MemberExpired, group, group.epoch, member.id, member.instance_id, member.client_id, timeout_ms, False
            )
            return self.remove(group, (member,), Cause.MEMBER_EXPIRED, None)

        self._core.timers.set(session(group_id, member_id), timeout_ms, expire)

    def limit_revocation(self, group: ConsumerGroup, member: Member) -> None:
        """As soon as a member has to give up partitions; or not any more."""
        group_id, member_id, epoch = group.id, member.id, member.epoch
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._core.timers.cancel(revocation(group_id, member_id))
            return

        def give_up() -> Outcome[None]:
            found = self._find(group_id, member_id)
            if found is None or found[1].epoch != epoch:
                return Outcome(None)
            group, member = found
            self._core.note(
                RevocationMissed, group, group.epoch, member.id, member.instance_id, member.client_id,
                member.rebalance_timeout_ms,
            )  # fmt: skip
            return self.remove(group, (member,), Cause.REVOCATION_MISSED, None)

        self._core.timers.set(revocation(group_id, member_id), member.rebalance_timeout_ms, give_up)

    # -- classic members, who are waited for

    def await_join(self, group: ConsumerGroup, member: Member) -> None:
        """It has been told to join again; how often it is told does not matter."""
        name = joining(group.id, member.id)
        if name not in self._awaited:
            self._awaited.add(name)
            self._limit(name, group, member, Cause.JOIN_MISSED)

    def has_joined(self, group: ConsumerGroup, member: Member) -> None:
        """It has its answer and is to ask for its assignment."""
        self._stop_awaiting(joining(group.id, member.id))
        self.renew_session(group, member)
        self._limit(syncing(group.id, member.id), group, member, Cause.SYNC_MISSED)

    def has_synced(self, group: ConsumerGroup, member: Member) -> None:
        self._core.timers.cancel(syncing(group.id, member.id))
        self.renew_session(group, member)

    def _stop_awaiting(self, name: object) -> None:
        self._awaited.discard(name)
        self._core.timers.cancel(name)

    def _limit(self, name: object, group: ConsumerGroup, member: Member, cause: Cause) -> None:
        group_id, member_id = group.id, member.id

        def give_up() -> Outcome[None]:
            self._awaited.discard(name)
            found = self._find(group_id, member_id)
            if found is None:
                return Outcome(None)
            group, member = found
            self._core.note(SyncsMissed, group, group.epoch, (member.id,))
            return self.remove(group, (member,), cause, None)

        self._core.timers.set(name, member.rebalance_timeout_ms, give_up)

    def _find(self, group_id: str, member_id: str) -> tuple[ConsumerGroup, Member] | None:
        group = self._core.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        return None if group is None or member is None else (group, member)

    # -- what comes of it

    def remove(self, group: ConsumerGroup, members: Sequence[Member], cause: Cause, reply: R) -> Outcome[R]:
        """A new epoch without these members; or a classic group, if only classic members are left."""
        moved = self._core.downgrades.without(group, members, reply)
        if moved is not None:
            return moved
        records: list[StoredRecord] = []
        patterns: dict[str, int] = {}
        for member in members:
            records += member_deletions(group.id, member.id)
            if member.pattern:
                patterns[member.pattern] = patterns.get(member.pattern, 0) + 1
        unused = [pattern for pattern, count in patterns.items() if group.counts.patterns.get(pattern) == count]
        records += [deletion(PATTERN, group.id, pattern) for pattern in unused]
        matched = [matches.topics for pattern in unused if (matches := group.patterns.get(pattern)) is not None]
        topics = group.counts.topics_with([*(member.topics for member in members), *matched], ())
        epoch = group.epoch + 1
        records.append(group_record(group.id, GroupEpoch(epoch, self._core.hash_of(group, topics))))
        gone = tuple(member.id for member in members)
        for member_id in gone:
            self.forget(group.id, member_id)
        self._core.note(EpochBumped, group, epoch, cause, gone)
        if len(members) == len(group.members):
            self._core.note(GroupEmptied, group, epoch, ())
        return Outcome(reply, records, partial(self.restore, group.id, gone))

    def restore(self, group_id: str, member_ids: Iterable[str], error: KafkaError) -> None:
        """What was decided about members has not been stored: they are waited for as before."""
        for member_id in member_ids:
            found = self._find(group_id, member_id)
            if found is not None:
                self.renew_session(*found)
                self.limit_revocation(*found)

    def forget(self, group_id: str, member_id: str) -> None:
        self._core.timers.cancel(session(group_id, member_id))
        self._core.timers.cancel(revocation(group_id, member_id))
        self._core.timers.cancel(syncing(group_id, member_id))
        self._stop_awaiting(joining(group_id, member_id))


def session(group_id: str, member_id: str) -> object:
    return ("consumer session", group_id, member_id)


def revocation(group_id: str, member_id: str) -> object:
    return ("revocation", group_id, member_id)


def joining(group_id: str, member_id: str) -> object:
    return ("classic join", group_id, member_id)


def syncing(group_id: str, member_id: str) -> object:
    return ("classic sync", group_id, member_id)


def known_member(group: ConsumerGroup, member_id: str) -> Member:
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(ErrorCode.unknown_member_id, f"Member {member_id} is not a member of group {group.id}.")
    return member
