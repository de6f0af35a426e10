"""LeaveGroup: of a member that closes, or of many by an administrator."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.coordinator.group.classic.core import Core, nothing, with_reply
from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.classic.rebalance import Rebalance
from ottla.coordinator.group.classic.requests import NO_MEMBER_ID, LeaveAnswer, Leaving
from ottla.coordinator.group.events import Cause, IdUnused, MemberFenced, MemberLeft
from ottla.coordinator.machine import Outcome
from ottla.model.errors import ErrorCode


class Leave:
    def __init__(self, core: Core, rebalance: Rebalance) -> None:
        self._core = core
        self._rebalance = rebalance

    def __call__(self, group_id: str, leaving: Sequence[Leaving]) -> Outcome[LeaveAnswer]:
        group = self._core.groups.get(group_id)
        if group is None:
            return nothing(LeaveAnswer([ErrorCode.unknown_member_id] * len(leaving)))
        errors = [self._leave(group, one) for one in leaving]
        answer = LeaveAnswer(errors)
        left = tuple(
            one.member_id or one.instance_id or ""
            for one, error in zip(leaving, errors, strict=True)
            if error is ErrorCode.none
        )
        if not left or group.is_empty:
            return nothing(answer)
        if group.state is State.PREPARING_REBALANCE:
            return with_reply(self._rebalance.complete_if_all_joined(group), answer)
        reason = next((one.reason for one in leaving if one.reason), None)
        return with_reply(self._rebalance.begin(group, Cause.MEMBER_LEFT, left, reason), answer)

    def _leave(self, group: ClassicGroup, leaving: Leaving) -> ErrorCode:
        member_id, instance_id, reason = leaving
        by_administrator = member_id == NO_MEMBER_ID
        if by_administrator:
            known = group.instances.get(instance_id) if instance_id is not None else None
            if known is None:
                return ErrorCode.unknown_member_id
            member_id = known
        elif member_id in group.pending_joins:
            group.remove(member_id)
            self._rebalance.forget_session(group, member_id)
            self._core.note(IdUnused, group, member_id, True)
            return ErrorCode.none
        else:
            error = group.check_member(member_id, instance_id)
            if error is ErrorCode.fenced_instance_id:
                self._core.note(MemberFenced, group, instance_id, member_id, "leave")
            if error is not ErrorCode.none:
                return error
        member = group.members[member_id]
        self._rebalance.forget_session(group, member_id)
        self._rebalance.remove(group, member)
        self._core.note(MemberLeft, group, member_id, member.instance_id, member.client.id, reason, by_administrator)
        return ErrorCode.none
