"""JoinGroup: who may come in, under which id, and whether that begins a rebalance."""

from __future__ import annotations

from typing import Final

from ottla.coordinator.group.classic.core import DONE, NEW_MEMBER_JOIN_TIMEOUT_MS, Core
from ottla.coordinator.group.classic.group import ClassicGroup, State
from ottla.coordinator.group.classic.members import Member
from ottla.coordinator.group.classic.rebalance import Rebalance
from ottla.coordinator.group.classic.records import group_record
from ottla.coordinator.group.classic.requests import NO_MEMBER_ID, JoinAnswer, JoinCallback, JoinRequest
from ottla.coordinator.group.events import (
    Cause,
    IdGiven,
    MemberFenced,
    MemberJoined,
    MemberRefused,
    MemberRejoined,
    StaticMemberReplaced,
)
from ottla.coordinator.machine import Outcome
from ottla.model.errors import ErrorCode, KafkaError

_LONGEST_TEXT: Final = 32_767  # bytes


class Join:
    def __init__(self, core: Core, rebalance: Rebalance) -> None:
        self._core = core
        self._rebalance = rebalance

    def __call__(self, request: JoinRequest, answer: JoinCallback) -> Outcome[None]:
        """The answer comes when the group is ready for it; the outcome says only what is to be stored."""
        group = self._core.groups.get(request.group_id)
        if group is not None:
            return self._join(group, request, answer)
        if request.member_id != NO_MEMBER_ID:
            answer(JoinAnswer(ErrorCode.unknown_member_id, request.member_id))
            return DONE
        try:
            room = self._core.neighbours.make_room(request.group_id)
        except KafkaError as error:
            answer(JoinAnswer(error.code, request.member_id))
            return DONE
        group = ClassicGroup(request.group_id, self._core.now_ms())
        self._core.newborn[group.id] = group
        self._join(group, request, answer)  # needs no record: the first rebalance is yet to come
        return Outcome(None, [*room, group_record(group.id, group.stored_new())])

    def _join(self, group: ClassicGroup, request: JoinRequest, answer: JoinCallback) -> Outcome[None]:
        member_id = request.member_id
        if not self._has_room(group, member_id):
            group.remove(member_id)
            return self._refuse(group, request, answer, JoinAnswer(ErrorCode.group_max_size_reached))
        if not group.supports(request.protocol_type, request.protocols):
            return self._refuse(
                group, request, answer, JoinAnswer(ErrorCode.inconsistent_group_protocol, member_id)
            )  # fmt: skip
        if member_id == NO_MEMBER_ID:
            return self._first(group, request, answer)
        if member_id in group.pending_joins:
            if request.instance_id is not None:  # static members are never given an id to come back with
                return self._refuse(group, request, answer, JoinAnswer(ErrorCode.unknown_server_error))
            return self._add(group, member_id, request, answer)
        return self._again(group, request, answer)

    def _refuse(
        self, group: ClassicGroup, request: JoinRequest, answer: JoinCallback, refusal: JoinAnswer
    ) -> Outcome[None]:
        self._core.note(MemberRefused, group, request.member_id, request.client.id, refusal.error.name)
        answer(refusal)
        return DONE

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        most = self._core.limits.max_size
        member = group.members.get(member_id)
        if group.is_empty:
            return True
        if group.state is State.PREPARING_REBALANCE:
            # Those who wait are counted, not the members: a group that is too large loses those who come last.
            return (member is not None and member.on_join is not None) or group.waiting_joins < most
        return member is not None or len(group.members) < most

    # -- without an id

    def _first(self, group: ClassicGroup, request: JoinRequest, answer: JoinCallback) -> Outcome[None]:
        instance_id = request.instance_id
        name = request.client.id if instance_id is None else instance_id
        member_id = _member_id(name, self._core.new_id())
        if instance_id is not None:
            known = group.instances.get(instance_id)
            if known is not None:
                return self._replace(group, known, member_id, request, answer)
        elif request.takes_id_first:
            group.pending_joins[member_id] = None
            self._rebalance.limit_session(group, member_id, request.session_timeout_ms)
            self._core.note(IdGiven, group, member_id, *request.client)
            answer(JoinAnswer(ErrorCode.member_id_required, member_id))
            return DONE
        return self._add(group, member_id, request, answer)

    def _add(self, group: ClassicGroup, member_id: str, request: JoinRequest, answer: JoinCallback) -> Outcome[None]:
        member = Member.joining(member_id, request)
        if group.state is State.PREPARING_REBALANCE and group.came_from is State.EMPTY:
            group.has_grown = True
        group.add(member, answer)
        self._rebalance.limit_session(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._core.note(
            MemberJoined, group, member_id, member.instance_id, *member.client, request.reason,
            member.session_timeout_ms, member.rebalance_timeout_ms, member.subscription,
        )  # fmt: skip
        return self._rebalance.begin_or_go_on(group, Cause.MEMBER_JOINED, (member_id,), request.reason)

    # -- with an id

    def _again(self, group: ClassicGroup, request: JoinRequest, answer: JoinCallback) -> Outcome[None]:
        member_id = request.member_id
        error = group.check_member(member_id, request.instance_id)
        if error is not ErrorCode.none:
            if error is ErrorCode.fenced_instance_id:
                self._core.note(MemberFenced, group, request.instance_id, member_id, "join")
            answer(JoinAnswer(error, member_id))
            return DONE
        member = group.members[member_id]
        is_leader = group.leader == member_id
        if group.state is State.PREPARING_REBALANCE:
            return self._update(group, member, request, answer, Cause.MEMBER_CHANGED)
        if member.protocols != request.protocols:
            return self._update(group, member, request, answer, Cause.MEMBER_CHANGED)
        if group.state is State.STABLE and is_leader:
            # So it can have the work shared out anew when something has changed that no subscription shows.
            return self._update(group, member, request, answer, Cause.LEADER_REJOINED)
        # It has missed the answer.
        with_members = is_leader and group.state is State.COMPLETING_REBALANCE
        answer(group.joined(member_id, with_members=with_members))
        return DONE

    def _update(
        self, group: ClassicGroup, member: Member, request: JoinRequest, answer: JoinCallback, cause: Cause
    ) -> Outcome[None]:
        group.update(member, request, answer)
        self._core.note(MemberRejoined, group, member.id, request.reason, member.subscription)
        return self._rebalance.begin_or_go_on(group, cause, (member.id,), request.reason)

    # -- a static member that has been restarted (KIP-345)

    def _replace(
        self, group: ClassicGroup, old_id: str, new_id: str, request: JoinRequest, answer: JoinCallback
    ) -> Outcome[None]:
        instance_id = request.instance_id
        assert instance_id is not None
        old_leader = group.leader
        member = group.replace(instance_id, old_id, new_id)
        self._rebalance.renew_session(group, member)
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        group.update(member, request, answer)
        keeps_protocol = group.state is State.STABLE and group.elect_protocol() == group.protocol
        self._core.note(
            StaticMemberReplaced, group, instance_id, old_id, new_id, not keeps_protocol, *request.client
        )  # fmt: skip
        if group.state is State.STABLE and not keeps_protocol:
            return self._rebalance.begin(
                group, Cause.STATIC_MEMBER_CHANGED_PROTOCOL, (new_id,), request.reason
            )  # fmt: skip
        if group.state is State.COMPLETING_REBALANCE:
            # The leader may be assigning to the old id, which would leave the new one without anything.
            return self._rebalance.begin(group, Cause.STATIC_MEMBER_RETURNED, (new_id,), request.reason)
        if group.state is State.PREPARING_REBALANCE:
            return self._rebalance.complete_if_all_joined(group)

        def committed() -> None:
            is_leader = group.leader == new_id
            if request.can_skip_assignment:
                told = group.joined(new_id, with_members=is_leader)._replace(skip_assignment=is_leader)
            else:  # the leader's old id keeps a returning leader from assigning
                told = group.joined(new_id, with_members=False)._replace(leader=old_leader or "")
            group.answer_join(member, told)

        def undone(error: KafkaError) -> None:
            if group.members.get(new_id) is not member:
                return
            group.answer_join(
                member,
                group.joined(NO_MEMBER_ID, with_members=False)._replace(error=error.code, leader=old_leader or ""),
            )
            group.reset(member, *before)
            self._rebalance.renew_session(group, group.replace(instance_id, new_id, old_id))

        assignments = {known.id: known.assignment for known in group.members.values()}
        return Outcome(None, [group_record(group.id, group.stored(assignments))], undone, committed)


def _member_id(name: str, suffix: str) -> str:
    """As in Kafka; but a name is cut that would make it longer than a string of a record can be."""
    most = _LONGEST_TEXT - len(suffix) - 1
    if len(name) * 4 > most:
        name = name.encode()[:most].decode(errors="ignore")
    return f"{name}-{suffix}"
