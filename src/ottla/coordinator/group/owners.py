"""Groups of both kinds, as their offsets see them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.coordinator.group.classic.groups import ClassicGroups
from ottla.coordinator.group.consumer.groups import ConsumerGroups
from ottla.coordinator.group.migration.moves import BY_DEFAULT, Rules
from ottla.coordinator.group.offsets import CommitCheck, Member, OwnerOfOffsets
from ottla.coordinator.machine import StoredRecord
from ottla.model.errors import ErrorCode


class BothKinds:
    def __init__(self, classic: ClassicGroups, consumer: ConsumerGroups, rules: Rules = BY_DEFAULT) -> None:
        self._classic = classic
        self._consumer = consumer
        classic.live_beside(consumer)
        consumer.migrate(classic, rules)

    def get(self, group_id: str) -> OwnerOfOffsets | None:
        return self._consumer.get(group_id) or self._classic.get(group_id)

    def ids(self) -> list[str]:
        return self._classic.ids() + self._consumer.ids()

    def size(self, group_id: str) -> int:
        """How many members it has."""
        group = self._consumer.get(group_id) or self._classic.get(group_id)
        return 0 if group is None else len(group.members)

    def ensure(self, group_id: str) -> object:
        """Who commits without a group gets a classic one, without members."""
        return self._consumer.get(group_id) or self._classic.ensure(group_id)

    def check_commit(self, member: Member, version: int, *, transactional: bool = False) -> CommitCheck:
        group = self._consumer.get(member.group)
        if group is None:
            return self._classic.check_commit(
                member.group, member.id, member.instance_id, member.generation, transactional=transactional
            )
        return self._consumer.check_commit(
            group, member.id, member.instance_id, member.generation, version, transactional=transactional
        )

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int, *, committed_only: bool) -> ErrorCode:
        return self._consumer.check_fetch(group_id, member_id, epoch, committed_only=committed_only)

    def heard(self, group_id: str, member_id: str) -> None:
        """A commit counts as a heartbeat of a classic member, not of a consumer's."""
        self._classic.heard(group_id, member_id)

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        if self._consumer.has(group_id):
            return ErrorCode.none  # but for the topics that its members subscribe to
        return self._classic.check_offset_delete(group_id)

    # -- their end

    def check_delete(self, group_id: str) -> ErrorCode:
        group = self._consumer.get(group_id)
        if group is None:
            return self._classic.check_delete(group_id)
        return ErrorCode.none if group.is_empty else ErrorCode.non_empty_group

    def deletion(self, group_id: str) -> Sequence[StoredRecord]:
        """Of a group that may be deleted, after its offsets."""
        group = self._consumer.get(group_id)
        return [self._classic.deletion(group_id)] if group is None else self._consumer.deletion(group)

    def deletion_if_empty(self, group_id: str) -> Sequence[StoredRecord]:
        """When its last offset has expired."""
        group = self._consumer.get(group_id)
        if group is None:
            return self._classic.deletion_if_empty(group_id)
        return self._consumer.deletion(group) if group.is_empty else ()
