"""Who is to have what: the target assignment, computed once for an epoch, on the loop or beside it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple
from uuid import UUID

from ottla.coordinator.group.assignors.catalogue import assign, is_large
from ottla.coordinator.group.assignors.spec import Assignment, AssignmentFailed, GroupSpec, MemberSpec
from ottla.coordinator.group.consumer.core import Core
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.members import Member
from ottla.coordinator.group.consumer.records import TargetEpoch, target_epoch_record, target_record
from ottla.coordinator.group.events import TargetComputed
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.metadata.image import MetadataImage
from ottla.model.errors import ErrorCode, KafkaError

_log = logging.getLogger("ottla.coordinator")


class Target(NamedTuple):
    """What a member is to have, and the epoch that this is for."""

    epoch: int
    assignment: Assignment


class Targets:
    def __init__(self, core: Core) -> None:
        self._core = core

    def of(
        self, group: ConsumerGroup, epoch: int, old: Member, new: Member, records: list[StoredRecord]
    ) -> Target:  # fmt: skip
        """The member's share, of a new target if it is time for one; its records go to the others."""
        last = Target(group.target.now.epoch, group.target_of(new))
        if last.epoch >= epoch or not self._may_compute(group):
            return last
        name = ("assign", group.id)
        if self._core.background.is_running(name):
            return last
        assignor = group.counts.favourite_assignor(old, new)
        if assignor not in self._core.limits.assignors:
            assignor = self._core.limits.assignors[0]
        spec = make_spec(group, new, self._core.image())
        if is_large(spec):
            started_ms = self._core.now_ms()
            self._core.background.start(
                name,
                assign,
                (assignor, spec),
                partial(self._assigned_beside, group.id, epoch, assignor, started_ms),
                partial(self._failed, group.id, epoch),
            )
            return last
        started_ms = self._core.now_ms()
        try:
            assignments = assign(assignor, spec)
        except AssignmentFailed as failure:
            message = f"Failed to compute a new target assignment for epoch {epoch}: {failure}"
            _log.error("group %s: %s", group.id, message)
            raise KafkaError(ErrorCode.unknown_server_error, message) from failure
        records += self._records(group, epoch, assignor, assignments, started_ms)
        return Target(epoch, assignments[new.id])

    def _may_compute(self, group: ConsumerGroup) -> bool:
        """Assignments of a group keep their distance (KIP-1263): many members that come at once cause but two.

        One that seems to come from the future, as the clock has gone back since, keeps nobody waiting.
        """
        last_ms = group.target.now.computed_ms
        pause_ms = self._core.settings(group.id).assignment_interval_ms
        return last_ms == 0 or pause_ms == 0 or not last_ms <= self._core.now_ms() < last_ms + pause_ms

    def _assigned_beside(
        self, group_id: str, epoch: int, assignor: str, started_ms: int, assignments: Mapping[str, Assignment]
    ) -> Outcome[None]:
        """Members that came since wait for the next one; for those that left there is nothing to write."""
        group = self._core.groups.get(group_id)
        if group is None or group.target.now.epoch >= epoch or group.epoch < epoch:
            return Outcome(None)
        present = {member_id: share for member_id, share in assignments.items() if member_id in group.members}
        return Outcome(None, self._records(group, epoch, assignor, present, started_ms))

    def _failed(self, group_id: str, epoch: int, error: BaseException) -> Outcome[None]:
        _log.error("group %s: no target assignment for epoch %d: %s", group_id, epoch, error)
        return Outcome(None)

    def _records(
        self, group: ConsumerGroup, epoch: int, assignor: str, shares: Mapping[str, Assignment], started_ms: int
    ) -> list[StoredRecord]:
        now_ms = self._core.now_ms()
        self._core.note(TargetComputed, group, epoch, assignor, shares, now_ms - started_ms)
        records = [
            target_record(group.id, member_id, share)
            for member_id, share in shares.items()
            if (before := group.targets.get(member_id)) is None or (before is not share and before != share)
        ]
        records.append(target_epoch_record(group.id, TargetEpoch(epoch, now_ms)))
        return records


def make_spec(group: ConsumerGroup, updated: Member, image: MetadataImage) -> GroupSpec:
    """The group with one member as it is about to be; of a static one the former self is left out."""
    ids = _TopicIds(group, image)
    former = None if updated.instance_id is None else group.counts.instances.get(updated.instance_id)
    members = {
        member_id: MemberSpec(
            ids.of(member), group.targets.get(member_id) or {}, member.instance_id, member.rack
        )
        for member_id, member in group.members.items()
        if member_id not in (former, updated.id)
    }  # fmt: skip
    members[updated.id] = MemberSpec(ids.of(updated), group.target_of(updated), updated.instance_id, updated.rack)
    return GroupSpec(members, ids.partitions)


class _TopicIds:
    """Most members subscribe to the same: their topics are looked up once."""

    def __init__(self, group: ConsumerGroup, image: MetadataImage) -> None:
        self._group = group
        self._image = image
        self._known: dict[tuple[frozenset[str], str | None], frozenset[UUID]] = {}
        self.partitions: dict[UUID, int] = {}

    def of(self, member: Member) -> frozenset[UUID]:
        key = (member.topics, member.pattern)
        known = self._known.get(key)
        if known is None:
            topics = [self._image.topic(name) for name in sorted(self._group.topics_of(member))]
            self.partitions.update({topic.id: len(topic.partitions) for topic in topics if topic is not None})
            known = self._known[key] = frozenset(topic.id for topic in topics if topic is not None)
        return known
