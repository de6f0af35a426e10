"""SyncGroup: the leader brings the assignment, everyone else waits for it."""

from __future__ import annotations

from ottla.coordinator.group.classic.core import DONE, Core
from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.classic.rebalance import Rebalance
from ottla.coordinator.group.classic.records import group_record
from ottla.coordinator.group.classic.requests import SyncAnswer, SyncCallback, SyncRequest
from ottla.coordinator.group.events import AssignmentReceived, Cause, MemberFenced
from ottla.coordinator.machine import Outcome
from ottla.model.errors import ErrorCode, KafkaError


class Sync:
    def __init__(self, core: Core, rebalance: Rebalance) -> None:
        self._core = core
        self._rebalance = rebalance

    def __call__(self, request: SyncRequest, answer: SyncCallback) -> Outcome[None]:
        group = self._core.groups.get(request.group_id)
        if group is None or group.is_empty:
            answer(SyncAnswer(ErrorCode.unknown_member_id))
            return DONE
        error = self._check(group, request)
        if error is ErrorCode.none and group.state is State.PREPARING_REBALANCE:
            error = ErrorCode.rebalance_in_progress
        if error is not ErrorCode.none:
            answer(SyncAnswer(error))
            return DONE
        member = group.members[request.member_id]
        group.pending_syncs.pop(member.id, None)
        if group.state is State.STABLE:
            answer(SyncAnswer(ErrorCode.none, group.protocol_type, group.protocol, member.assignment))
            return DONE
        member.on_sync = answer
        return self._assign(group, request) if group.leader == member.id else DONE

    def _check(self, group: ClassicGroup, request: SyncRequest) -> ErrorCode:
        error = group.check_member(request.member_id, request.instance_id)
        if error is ErrorCode.fenced_instance_id:
            self._core.note(MemberFenced, group, request.instance_id, request.member_id, "sync")
        if error is not ErrorCode.none:
            return error
        if request.generation != group.generation:
            return ErrorCode.illegal_generation
        if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol):
            return ErrorCode.inconsistent_group_protocol
        return ErrorCode.none

    def _assign(self, group: ClassicGroup, request: SyncRequest) -> Outcome[None]:
        """What the leader brought is stored first; only then the members hear of it."""
        generation = group.generation
        self._core.note(AssignmentReceived, group, request.member_id, self._core.now_ms() - group.state_since_ms)
        assignments = dict(request.assignments)
        without = tuple(member_id for member_id in group.members if member_id not in assignments)
        assignments.update(dict.fromkeys(without, b""))

        def is_current() -> bool:  # someone may have joined meanwhile
            return group.state is State.COMPLETING_REBALANCE and group.generation == generation

        def committed() -> None:
            if is_current():
                self._rebalance.assign(group, assignments, without)

        def undone(error: KafkaError) -> None:
            if is_current():
                self._rebalance.fail_syncs(group, error.code)
                self._rebalance.begin(group, Cause.ASSIGNMENT_NOT_STORED, (), error.message)

        return Outcome(None, [group_record(group.id, group.stored(assignments))], undone, committed)


def _differ(asked: str | None, known: str | None) -> bool:
    return asked is not None and known is not None and asked != known
