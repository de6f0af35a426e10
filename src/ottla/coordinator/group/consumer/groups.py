"""All consumer groups of one shard: their way back from the log, what others want to know of them, and their end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from ottla.coordinator.group.classic.groups import ClassicGroups
from ottla.coordinator.group.classic.requests import ListedGroup
from ottla.coordinator.group.consumer import records as stored
from ottla.coordinator.group.consumer.classic_members import ClassicMembers
from ottla.coordinator.group.consumer.codec import read_names
from ottla.coordinator.group.consumer.core import Core, Surroundings
from ottla.coordinator.group.consumer.group import PROTOCOL_TYPE, TYPE, ConsumerGroup
from ottla.coordinator.group.consumer.heartbeat import Heartbeat
from ottla.coordinator.group.consumer.members import LEFT, Member, MemberState
from ottla.coordinator.group.consumer.patterns import Patterns
from ottla.coordinator.group.consumer.removal import Removal
from ottla.coordinator.group.consumer.replaying import put
from ottla.coordinator.group.consumer.requests import DescribedGroup, DescribedMember
from ottla.coordinator.group.events import GroupDeleted, GroupLoaded
from ottla.coordinator.group.migration.moves import Moves, Rules
from ottla.coordinator.group.offsets import CommitCheck
from ottla.coordinator.machine import StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.model.errors import ErrorCode, KafkaError

_COMMITS_BY_MEMBERS: Final = 9  # the first version of OffsetCommit that members of consumer groups may use


class ConsumerGroups:
    def __init__(self, timeline: Timeline, around: Surroundings) -> None:
        self._core = Core(timeline, around)
        self._removal = Removal(self._core)
        self._patterns = Patterns(self._core)
        self.heartbeat = Heartbeat(self._core, self._removal, self._patterns)
        self.classic_members = ClassicMembers(self._core, self._removal, self.heartbeat)

    # -- groups of the other kind

    def migrate(self, classic: ClassicGroups, rules: Rules) -> None:
        """Beside classic groups that may become consumer groups, and these classic ones again."""
        self._core.neighbours = self._core.downgrades = Moves(classic, self._core, self._removal, rules)

    def has(self, group_id: str) -> bool:
        return group_id in self._core.groups

    def make_room(self, group_id: str) -> list[StoredRecord]:
        group = self._core.groups.get(group_id)
        if group is None:
            return []
        if not group.is_empty:
            raise KafkaError(ErrorCode.inconsistent_group_protocol, f"group {group_id} is a consumer group")
        return self.deletion(group)

    def gave_way(self, group_id: str) -> None:
        """A classic group ends a consumer group by records; there is nothing left to do."""

    # -- its life

    def started(self) -> None:
        """Members are awaited as if they had just been heard."""
        self._patterns.topics_came_at = self._core.image().offset
        for _, group in self._core.groups.items():
            if not group.members:
                continue
            for _, member in group.members.items():
                self._removal.renew_session(group, member)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    self._removal.limit_revocation(group, member)
            self._core.note(GroupLoaded, group, group.epoch, len(group.members))

    def topics_changed(self, changed: Collection[str], *, created: bool) -> None:
        """Names of topics that came, went, or have other partitions than before."""
        if created:
            self._patterns.topics_came_at = self._core.image().offset
        if changed:
            self._core.hashes.forget(changed)
            names = frozenset(changed)
            for _, group in self._core.groups.items():
                if not group.counts.topics.keys().isdisjoint(names):  # walks over the smaller one
                    group.look_at_metadata_soon()

    def replay(self, record: StoredRecord, kind: int) -> None:
        group_id, *names = read_names(record.key)
        group = self._core.groups.get(group_id)
        if group is None:
            if record.value is None:
                return
            group = ConsumerGroup(group_id, self._core.timeline)
            self._core.neighbours.gave_way(group_id)
            self._core.groups[group_id] = group
        if record.value is None:
            self._delete(group, kind, *names)
        else:
            put(group, kind, record.value, *names)

    def _delete(self, group: ConsumerGroup, kind: int, name: str = "") -> None:
        if kind == stored.GROUP:
            self._core.groups.pop(group.id)
        elif kind == stored.PARTITIONS:
            group.has_partitions_record.set(False)
        elif kind == stored.MEMBER:
            group.members.pop(name)
        elif kind == stored.TARGET_EPOCH:
            group.target.set(stored.TargetEpoch(LEFT))
        elif kind == stored.TARGET:
            group.targets.pop(name)
        elif kind == stored.CURRENT:
            member = group.members.get(name)
            if member is not None:
                group.members[name] = member._replace(epoch=LEFT, previous_epoch=LEFT, assigned={}, revoking={})
        elif kind == stored.PATTERN:
            group.patterns.pop(name)

    # -- for committed offsets

    def get(self, group_id: str) -> ConsumerGroup | None:
        return self._core.groups.get(group_id)

    def ids(self) -> list[str]:
        return list(self._core.groups)

    def check_commit(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int, version: int,
        *, transactional: bool = False,
    ) -> CommitCheck:  # fmt: skip
        """An error for all; or what says of each partition whether the member may commit for it."""
        if epoch < 0 and not group.members:
            return ErrorCode.none
        if transactional and epoch == -1 and member_id == "" and instance_id is None:
            return ErrorCode.none
        member = group.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        if not transactional and member.classic is None and version < _COMMITS_BY_MEMBERS:
            return ErrorCode.unsupported_version
        if epoch == member.epoch:
            return ErrorCode.none
        stale = _stale(member)
        if epoch > member.epoch:
            return stale

        def check(topic_id: UUID | None, partition: int) -> ErrorCode:
            """An epoch that is over is good enough for what the member has had since then (KIP-1251)."""
            since = None if topic_id is None else member.assigned_in(topic_id, partition)
            return stale if since is None or epoch < since else ErrorCode.none

        return check

    def check_fetch(
        self, group_id: str, member_id: str | None, epoch: int, *, committed_only: bool
    ) -> ErrorCode:  # fmt: skip
        """Who is no member, an administrator say, gives neither."""
        group = self._core.groups.committed_get(group_id) if committed_only else self._core.groups.get(group_id)
        if group is None or (member_id is None and epoch < 0):
            return ErrorCode.none
        if member_id is None:
            return ErrorCode.unknown_server_error  # what Kafka makes of it
        member = group.members.committed_get(member_id) if committed_only else group.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        return ErrorCode.none if epoch == member.epoch else _stale(member)

    def deletion(self, group: ConsumerGroup) -> list[StoredRecord]:
        """Of a group without members, after its offsets."""
        self._core.note(GroupDeleted, group, group.epoch)
        return group.deletions()

    # -- for those who look

    def describe(self, group_id: str) -> DescribedGroup:
        """KafkaError if there is no such group, or it is another kind."""
        group = self._core.groups.committed_get(group_id)
        if group is None:
            raise self._core.absent(group_id)
        return DescribedGroup(
            group_id,
            group.committed_state.value,
            group.latest.committed.epoch,
            group.target.committed.epoch,
            group.committed_assignor or self._core.limits.assignors[0],
            [
                DescribedMember(member, group.targets.committed_get(member_id) or {})
                for member_id, member in group.members.committed_items()
            ],
        )

    def list(self, states: Collection[str] = ()) -> Sequence[ListedGroup]:
        """States as people write them, in any case."""
        wanted = {state.strip().lower() for state in states}
        return [
            ListedGroup(group_id, PROTOCOL_TYPE, state.value, TYPE)
            for group_id, group in self._core.groups.committed_items()
            if (state := group.committed_state) and (not wanted or state.value.lower() in wanted)
        ]


def _stale(member: Member) -> ErrorCode:
    return ErrorCode.stale_member_epoch if member.classic is None else ErrorCode.illegal_generation
