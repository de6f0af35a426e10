"""One consumer group: its members and what each has and is to have.

    Empty         nobody
    Assigning     something has changed: the group has a new epoch, and the target assignment is for an earlier one
    Reconciling   the target is there; members give up what others wait for, and take what has been released
    Stable        everyone has what the target gives it

Three epochs follow each other: the group's, which a change of members, subscriptions or topics moves on; the target's,
which catches up when an assignment is computed; and each member's, which catches up with heartbeats.

All that is here comes from records and changes only as they are replayed, but for the time of the next look at the
metadata and that of the last vain attempt to match patterns. A classic member (during a migration) is a `Member` with
`classic` set: it is in all of the same tables, and `counts.classic_members` says how many there are.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.coordinator.group.assignors.spec import Assignment
from ottla.coordinator.group.consumer.counts import Counts, favourite
from ottla.coordinator.group.consumer.members import Member
from ottla.coordinator.group.consumer.records import GroupEpoch, Matches, TargetEpoch, group_deletions
from ottla.coordinator.machine import StoredRecord
from ottla.coordinator.timeline import Timeline, TimelineDict, TimelineValue, WatchedDict

TYPE: Final = "consumer"
PROTOCOL_TYPE: Final = "consumer"
_NO_TARGET: Final[Assignment] = {}


class State(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    def __init__(self, group_id: str, timeline: Timeline) -> None:
        self.id = group_id
        self.counts = Counts()
        self.members: WatchedDict[str, Member] = WatchedDict(timeline, self.counts.member_changed)
        self.patterns: WatchedDict[str, Matches] = WatchedDict(timeline, self.counts.matches_changed)
        self.targets: TimelineDict[str, Assignment] = TimelineDict(timeline)
        self.latest: TimelineValue[GroupEpoch] = TimelineValue(timeline, GroupEpoch(1))
        self.target: TimelineValue[TargetEpoch] = TimelineValue(timeline, TargetEpoch(1))
        self.has_partitions_record = TimelineValue(timeline, False)
        self.known_hash: tuple[tuple[int, int], int] | None = None  # of its topics, and when that was so
        self.not_matched_ms = -(2**63)
        """When its patterns could not be matched last."""
        self._look_at_metadata_ms = 0
        self._looked_in_epoch = 0

    @property
    def epoch(self) -> int:
        return self.latest.now.epoch

    @property
    def state(self) -> State:
        if not self.members:
            return State.EMPTY
        epoch = self.target.now.epoch
        if self.epoch > epoch:
            return State.ASSIGNING
        return State.STABLE if self.counts.stable.get(epoch) == len(self.members) else State.RECONCILING

    @property
    def committed_state(self) -> State:
        """For those who look: nothing that could still be undone."""
        if self.members.is_settled and self.latest.is_settled and self.target.is_settled:
            return self.state
        members = [member for _, member in self.members.committed_items()]
        epoch = self.target.committed.epoch
        if not members:
            return State.EMPTY
        if self.latest.committed.epoch > epoch:
            return State.ASSIGNING
        reconciled = all(member.is_reconciled_to(epoch) for member in members)
        return State.STABLE if reconciled else State.RECONCILING

    @property
    def committed_assignor(self) -> str | None:
        if self.members.is_settled:
            return self.counts.favourite_assignor()
        votes: dict[str, int] = {}
        for _, member in self.members.committed_items():
            if member.assignor is not None:
                votes[member.assignor] = votes.get(member.assignor, 0) + 1
        return favourite(votes)

    # -- members

    def static_member(self, instance_id: str | None) -> Member | None:
        member_id = None if instance_id is None else self.counts.instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member: Member) -> Assignment:
        """A static member that comes back has what was meant for its former self."""
        owner = member.id if member.instance_id is None else self.counts.instances.get(member.instance_id)
        return _NO_TARGET if owner is None else self.targets.get(owner) or _NO_TARGET

    def topics_of(self, member: Member) -> frozenset[str]:
        """Those it names, and those that its pattern is known to match."""
        matches = self.patterns.get(member.pattern) if member.pattern else None
        if matches is None or not matches.topics:
            return member.topics
        return member.topics | matches.topics if member.topics else matches.topics

    # -- the metadata

    def must_look_at_metadata(self, now_ms: int) -> bool:
        """Whether its topics may have changed since an epoch was based on them. One that was undone does not count."""
        return now_ms >= self._look_at_metadata_ms or self.epoch < self._looked_in_epoch

    def looked_at_metadata(self, next_ms: int, epoch: int) -> None:
        self._look_at_metadata_ms = next_ms
        self._looked_in_epoch = epoch

    def look_at_metadata_soon(self) -> None:
        self.looked_at_metadata(0, 0)

    # -- for committed offsets

    @property
    def is_empty(self) -> bool:
        return not self.members

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.counts.topics

    def expires_from(self, committed_ms: int) -> int | None:
        return committed_ms

    # -- its end

    def deletions(self) -> list[StoredRecord]:
        return group_deletions(self.id, self.members, self.patterns)
