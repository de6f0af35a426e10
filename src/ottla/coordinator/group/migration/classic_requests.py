"""Requests of the classic protocol, to whichever kind of group has the id."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.coordinator.group.classic.groups import ClassicGroups
from ottla.coordinator.group.classic.requests import (
    JoinCallback,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    SyncAnswer,
    SyncCallback,
    SyncRequest,
)
from ottla.coordinator.group.consumer.groups import ConsumerGroups
from ottla.coordinator.machine import Outcome
from ottla.model.errors import ErrorCode


class ClassicRequests:
    """Raises KafkaError where a member of a consumer group is told nothing but an error."""

    def __init__(self, classic: ClassicGroups, consumer: ConsumerGroups) -> None:
        self._classic = classic
        self._consumer = consumer

    def join(self, request: JoinRequest, answer: JoinCallback) -> Outcome[None]:
        """A consumer group without members gives way to a classic one."""
        group = self._consumer.get(request.group_id)
        if group is None or group.is_empty:
            return self._classic.join(request, answer)
        return self._consumer.classic_members.join(group, request, answer)

    def sync(self, request: SyncRequest, answer: SyncCallback) -> Outcome[None]:
        group = self._consumer.get(request.group_id)
        if group is None:
            return self._classic.sync(request, answer)
        if group.is_empty:
            answer(SyncAnswer(ErrorCode.unknown_member_id))
            return Outcome(None)
        return self._consumer.classic_members.sync(group, request, answer)

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> Outcome[ErrorCode]:  # fmt: skip
        group = self._consumer.get(group_id)
        if group is None:
            return self._classic.heartbeat(group_id, member_id, instance_id, generation)
        return self._consumer.classic_members.heartbeat(group, member_id, instance_id, generation)

    def leave(self, group_id: str, leaving: Sequence[Leaving]) -> Outcome[LeaveAnswer]:
        group = self._consumer.get(group_id)
        if group is None:
            return self._classic.leave(group_id, leaving)
        return self._consumer.classic_members.leave(group, leaving)
