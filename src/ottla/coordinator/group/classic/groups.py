"""All classic groups of one shard: every operation on them, and how they come back from the log."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ottla.coordinator.group.classic.core import Core, Surroundings, nothing
from ottla.coordinator.group.classic.group import DEAD, ClassicGroup, State
from ottla.coordinator.group.classic.join import Join
from ottla.coordinator.group.classic.leave import Leave
from ottla.coordinator.group.classic.rebalance import Rebalance
from ottla.coordinator.group.classic.records import group_of, read_group, tombstone
from ottla.coordinator.group.classic.requests import DescribedGroup, JoinAnswer, ListedGroup, SyncAnswer
from ottla.coordinator.group.classic.sync import Sync
from ottla.coordinator.group.events import Cause, GroupDeleted, GroupLoaded, MemberFenced
from ottla.coordinator.group.neighbours import Neighbours
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.model.errors import ErrorCode, KafkaError


class ClassicGroups:
    def __init__(self, timeline: Timeline, around: Surroundings) -> None:
        self._core = Core(timeline, around)
        self._rebalance = Rebalance(self._core)
        self._is_loading = True
        self.join = Join(self._core, self._rebalance)
        self.sync = Sync(self._core, self._rebalance)
        self.leave = Leave(self._core, self._rebalance)

    # -- groups of the other kind

    def live_beside(self, neighbours: Neighbours) -> None:
        self._core.neighbours = neighbours

    def has(self, group_id: str) -> bool:
        return group_id in self._core.groups

    def make_room(self, group_id: str) -> list[StoredRecord]:
        group = self._core.groups.get(group_id)
        if group is None:
            return []
        if not group.is_empty:
            raise KafkaError(
                ErrorCode.group_id_not_found,
                f"Cannot upgrade classic group {group_id} to consumer group because online upgrade is disabled.",
            )
        return [tombstone(group_id)]

    def take_over(self, group: ClassicGroup, without: tuple[str, ...], *, rebalances: bool) -> None:
        """A group comes from the consumer protocol: it is here once its record is replayed."""
        self._core.newborn[group.id] = group
        for member in group.members.values():
            self._rebalance.renew_session(group, member)
        if rebalances:
            self._rebalance.begin(group, Cause.PROTOCOL_CHANGED, without)

    def _send_away(self, group: ClassicGroup) -> None:
        """It has become a consumer group; who waits joins that."""
        for member in group.members.values():
            group.answer_join(member, JoinAnswer(ErrorCode.rebalance_in_progress, member.id))
            group.answer_sync(member, SyncAnswer(ErrorCode.rebalance_in_progress))

    def gave_way(self, group_id: str) -> None:
        """One that existed only for its offsets: these may be read from the log before the group is."""
        self._core.groups.pop(group_id)

    # -- its life

    def replay(self, record: StoredRecord) -> None:
        """While it is active its groups are already what their records say; only that they exist is taken from them."""
        group_id = group_of(record.key)
        if record.value is None:
            gone = self._core.groups.pop(group_id)
            if gone is not None and not self._is_loading:
                self._send_away(gone)
            return
        group = self.ensure(group_id)
        if self._is_loading:
            group.unread = record.value

    def ensure(self, group_id: str) -> ClassicGroup:
        """For replaying: the group, made if it is not there. Committed offsets are reason enough for one to exist."""
        newborn = self._core.newborn.pop(group_id, None)
        group = self._core.groups.get(group_id)
        if group is None:
            group = newborn or ClassicGroup(group_id, self._core.now_ms())
            self._core.groups[group_id] = group
        return group

    def started(self) -> None:
        self._is_loading = False
        for group_id, group in self._core.groups.items():
            if group.unread is None:
                continue
            group.restore(read_group(group.unread))
            group.unread = None
            if not group.members:
                continue
            self._core.note(GroupLoaded, group, len(group.members))
            for member in group.members.values():
                self._rebalance.renew_session(group, member)
            if len(group.members) > self._core.limits.max_size:
                # Those in it get the chance to commit; the last to join again will find it full.
                self._rebalance.begin(group, Cause.OVER_CAPACITY, (), f"group {group_id} is larger than allowed")

    def stopped(self) -> None:
        """Those who wait are sent to look for the new coordinator."""
        for _, group in self._core.groups.items():
            for member in group.members.values():
                group.answer_join(member, JoinAnswer(ErrorCode.not_coordinator, member.id))
                group.answer_sync(member, SyncAnswer(ErrorCode.not_coordinator))

    # -- heartbeats

    def heartbeat(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int
    ) -> Outcome[ErrorCode]:  # fmt: skip
        group = self._core.groups.get(group_id)
        if group is None:
            return nothing(ErrorCode.unknown_member_id)
        error = group.check_member(member_id, instance_id)
        if error is ErrorCode.fenced_instance_id:
            self._core.note(MemberFenced, group, instance_id, member_id, "heartbeat")
        if error is ErrorCode.none and generation != group.generation:
            error = ErrorCode.illegal_generation
        if error is ErrorCode.none:
            self._rebalance.renew_session(group, group.members[member_id])
            if group.state is State.PREPARING_REBALANCE:
                error = ErrorCode.rebalance_in_progress
        return nothing(error)

    # -- for committed offsets

    def get(self, group_id: str) -> ClassicGroup | None:
        return self._core.groups.get(group_id)

    def ids(self) -> list[str]:
        return list(self._core.groups)

    def check_commit(
        self, group_id: str, member_id: str, instance_id: str | None, generation: int, *, transactional: bool = False
    ) -> ErrorCode:
        """A group that is not there comes to be with the commit, if it is not one of a member's."""
        group = self._core.groups.get(group_id)
        if group is None:
            return ErrorCode.illegal_generation if generation >= 0 else ErrorCode.none
        return group.check_commit(member_id, instance_id, generation, transactional)

    def heard(self, group_id: str, member_id: str) -> None:
        """A commit counts as a heartbeat."""
        group = self._core.groups.get(group_id)
        if group is not None and group.state in (State.STABLE, State.PREPARING_REBALANCE):
            member = group.members.get(member_id)
            if member is not None:
                self._rebalance.renew_session(group, member)

    def check_offset_delete(self, group_id: str) -> ErrorCode:
        group = self._core.groups.get(group_id)
        if group is None:
            return ErrorCode.group_id_not_found
        if not group.is_empty and not group.is_of_consumers:
            return ErrorCode.non_empty_group
        return ErrorCode.none

    def check_delete(self, group_id: str) -> ErrorCode:
        group = self._core.groups.get(group_id)
        if group is None:
            return ErrorCode.group_id_not_found
        return ErrorCode.none if group.is_empty else ErrorCode.non_empty_group

    def deletion(self, group_id: str) -> StoredRecord:
        """Of a group that may be deleted, after its offsets."""
        group = self._core.groups.get(group_id)
        if group is not None:
            self._core.note(GroupDeleted, group)
        return tombstone(group_id)

    def deletion_if_empty(self, group_id: str) -> list[StoredRecord]:
        """When its last offset has expired."""
        group = self._core.groups.get(group_id)
        return [self.deletion(group_id)] if group is not None and group.is_empty else []

    # -- for those who look

    def describe(self, group_id: str) -> DescribedGroup:
        group = self._core.groups.committed_get(group_id)
        if group is not None:
            return group.described()
        is_other = self._core.neighbours.has(group_id)
        why = f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found."
        return DescribedGroup(group_id, DEAD, exists=False, why_absent=why)

    def list(self, states: Collection[str] = ()) -> Sequence[ListedGroup]:
        """States as people write them, in any case."""
        wanted = {state.strip().lower() for state in states}
        return [
            group.listed()
            for _, group in self._core.groups.committed_items()
            if not wanted or group.state.value.lower() in wanted
        ]
