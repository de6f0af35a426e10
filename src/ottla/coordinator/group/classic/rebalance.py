"""The phases of a rebalance, and what begins one. Every change of a group's state happens here."""

from __future__ import annotations

from functools import partial

from ottla.coordinator.group.classic.core import DONE, Core
from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.classic.members import Member
from ottla.coordinator.group.classic.records import group_record
from ottla.coordinator.group.classic.requests import JoinAnswer, SyncAnswer
from ottla.coordinator.group.events import (
    Cause,
    GroupEmptied,
    IdUnused,
    JoinsCompleted,
    MemberExpired,
    NobodyJoined,
    RebalanceCompleted,
    RebalanceStarted,
    SyncsMissed,
)
from ottla.coordinator.machine import Outcome
from ottla.model.errors import ErrorCode


class Rebalance:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._groups = core.groups
        self._timers = core.timers

    # -- beginning

    def begin(
        self, group: ClassicGroup, cause: Cause, who: tuple[str, ...], reason: str | None = None
    ) -> Outcome[None]:
        """Members who wait for an assignment of the generation that ends have to join again."""
        if group.state is State.COMPLETING_REBALANCE:
            self.fail_syncs(group, ErrorCode.rebalance_in_progress)
        group.pending_syncs.clear()
        self._timers.cancel(("sync", group.id))
        is_initial = group.is_empty
        group.become(State.PREPARING_REBALANCE, self._core.now_ms())
        self._core.note(RebalanceStarted, group, cause, who, reason, is_initial)
        if is_initial:
            delay_ms = self._core.limits.initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._await_first_members(group.id, delay_ms, remaining_ms)
            return DONE
        if group.all_joined:
            return self.complete_joins(group)
        self._limit_joins(group)
        return DONE

    def begin_or_go_on(
        self, group: ClassicGroup, cause: Cause, who: tuple[str, ...], reason: str | None = None
    ) -> Outcome[None]:
        if group.state is State.PREPARING_REBALANCE:
            return self.complete_if_all_joined(group)
        return self.begin(group, cause, who, reason)

    def _await_first_members(self, group_id: str, delay_ms: int, remaining_ms: int) -> None:
        end = partial(self._end_initial_delay, group_id, delay_ms, remaining_ms)
        self._timers.set(("join", group_id), delay_ms, end)

    def _end_initial_delay(self, group_id: str, delay_ms: int, remaining_ms: int) -> Outcome[None]:
        """As long as members keep coming the first rebalance waits for more, up to their rebalance timeout."""
        group = self._groups.get(group_id)
        if group is None or group.state is not State.PREPARING_REBALANCE:
            return DONE
        if group.has_grown and remaining_ms:
            group.has_grown = False
            next_delay_ms = min(self._core.limits.initial_rebalance_delay_ms, remaining_ms)
            self._await_first_members(group_id, next_delay_ms, max(remaining_ms - delay_ms, 0))
            return DONE
        return self.complete_joins(group)

    def _limit_joins(self, group: ClassicGroup) -> None:
        self._timers.set(("join", group.id), group.rebalance_timeout_ms, partial(self._end_joins, group.id))

    def _end_joins(self, group_id: str) -> Outcome[None]:
        group = self._groups.get(group_id)
        if group is None or group.state is not State.PREPARING_REBALANCE:
            return DONE
        return self.complete_joins(group)

    # -- all have joined

    def complete_if_all_joined(self, group: ClassicGroup) -> Outcome[None]:
        is_initial = group.came_from is State.EMPTY  # then the delay decides
        if group.state is State.PREPARING_REBALANCE and not is_initial and group.all_joined:
            return self.complete_joins(group)
        return DONE

    def complete_joins(self, group: ClassicGroup) -> Outcome[None]:
        self._timers.cancel(("join", group.id))
        dropped = tuple(m.id for m in group.members.values() if m.on_join is None and not m.is_static)
        for member_id in dropped:
            group.remove(member_id)
            self.forget_session(group, member_id)
        if not group.find_leader() and group.members:
            # Static members who have not come keep their place until their sessions run out.
            self._core.note(NobodyJoined, group, len(group.members))
            self._limit_joins(group)
            return DONE
        now_ms = self._core.now_ms()
        took_ms = now_ms - group.state_since_ms
        group.next_generation(now_ms)
        if group.is_empty:
            self._core.note(GroupEmptied, group, dropped)
            return Outcome(None, [group_record(group.id, group.stored({}))])
        self._core.note(
            JoinsCompleted, group, len(group.members), group.leader, group.protocol, dropped, took_ms
        )  # fmt: skip
        for member in group.members.values():
            group.answer_join(member, group.joined(member.id, with_members=member.id == group.leader))
            self.renew_session(group, member)
            member.is_new = False
            group.pending_syncs[member.id] = None
        end = partial(self._end_syncs, group.id, group.generation)
        self._timers.set(("sync", group.id), group.rebalance_timeout_ms, end)
        return DONE

    # -- the leader has assigned

    def assign(self, group: ClassicGroup, assignments: dict[str, bytes], without: tuple[str, ...]) -> None:
        for member in group.members.values():
            member.assignment = assignments.get(member.id, b"")
        self._answer_syncs(group, ErrorCode.none)
        group.become(State.STABLE, self._core.now_ms())
        shares = tuple((member.id, member.assignment) for member in group.members.values())
        self._core.note(RebalanceCompleted, group, shares, without)

    def fail_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
        self._answer_syncs(group, error)

    def _answer_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        is_good = error is ErrorCode.none
        protocol_type, protocol = (group.protocol_type, group.protocol) if is_good else (None, None)
        for member in group.members.values():
            if group.answer_sync(member, SyncAnswer(error, protocol_type, protocol, member.assignment)):
                # Its session may have run out while it waited, which did not count.
                self.renew_session(group, member)

    def _end_syncs(self, group_id: str, generation: int) -> Outcome[None]:
        group = self._groups.get(group_id)
        if group is None or generation != group.generation or not group.pending_syncs:
            return DONE
        if group.state not in (State.COMPLETING_REBALANCE, State.STABLE):
            return DONE
        missing = tuple(group.pending_syncs)
        self._core.note(SyncsMissed, group, missing)
        for member_id in missing:
            group.remove(member_id)
            self.forget_session(group, member_id)
        return self.begin(group, Cause.SYNC_MISSED, missing)

    # -- sessions

    def renew_session(self, group: ClassicGroup, member: Member) -> None:
        self.limit_session(group, member.id, member.session_timeout_ms)

    def limit_session(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        self._timers.set(
            ("session", group.id, member_id), timeout_ms, partial(self._end_session, group.id, member_id)
        )  # fmt: skip

    def forget_session(self, group: ClassicGroup, member_id: str) -> None:
        self._timers.cancel(("session", group.id, member_id))

    def _end_session(self, group_id: str, member_id: str) -> Outcome[None]:
        group = self._groups.get(group_id)
        if group is None:
            return DONE
        if member_id in group.pending_joins:
            self._core.note(IdUnused, group, member_id, False)
            group.remove(member_id)
            return self._go_on_without(group)
        member = group.members.get(member_id)
        if member is None or member.is_heard:
            return DONE
        self._core.note(
            MemberExpired, group, member_id, member.instance_id, member.client.id, member.session_timeout_ms,
            member.on_join is not None,
        )  # fmt: skip
        self.remove(group, member)
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            return self.begin(group, Cause.MEMBER_EXPIRED, (member_id,))
        return self._go_on_without(group)

    def _go_on_without(self, group: ClassicGroup) -> Outcome[None]:
        if group.state is State.PREPARING_REBALANCE and group.all_joined:
            return self.complete_joins(group)
        return DONE

    def remove(self, group: ClassicGroup, member: Member) -> None:
        """One who waits is told to come again, in case it is still there.

        Kafka leaves one that waits for its assignment without an answer, until the client gives up.
        """
        group.answer_join(member, JoinAnswer(ErrorCode.unknown_member_id))
        group.answer_sync(member, SyncAnswer(ErrorCode.unknown_member_id))
        group.remove(member.id)
