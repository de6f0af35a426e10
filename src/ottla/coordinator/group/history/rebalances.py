"""The rebalance of a group that is under way: what began it, its phases, who was waited for, what moved.

One is open from its beginning until its members know what they have; what happens meanwhile belongs to it. In a classic
group one that begins before the last is complete takes its place; a consumer group only has its goal moved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.coordinator.group import events as told
from ottla.coordinator.group.events import Cause, Topic
from ottla.coordinator.group.history.book import Book
from ottla.coordinator.group.history.entries import (
    CLASSIC,
    CONSUMER,
    KEPT_CHANGES,
    KEPT_NAMES,
    Change,
    Entry,
    Outcome,
    Rebalance,
    Slow,
    What,
    kept,
)
from ottla.coordinator.group.history.moves import Owned, count_of, moved, owned_by, owned_in
from ottla.coordinator.group.history.roster import Roster
from ottla.coordinator.group.history.standstills import Standstills

_SLOW: Final = 5
_SLOW_MS: Final = 500


@dataclass(slots=True)
class Topics:
    """What the metadata says now."""

    name_of: Callable[[Topic], str]
    partitions_of: Callable[[str], int | None]


class Rebalances:
    def __init__(
        self,
        book: Book,
        roster: Roster,
        topics: Topics,
        standstills: Standstills,
        on_end: Callable[[Rebalance], None],
    ) -> None:
        self.owned: dict[str, Owned] = {}
        """By member, as of the last that was completed."""
        self._book = book
        self._roster = roster
        self._topics = topics
        self._standstills = standstills
        self._on_end = on_end
        self._goal: Mapping[str, Owned] | None = None
        self._open: Rebalance | None = None
        self._joined_at: int | None = None  # when the joins of the open one were complete
        self._rejoined: dict[str, int] = {}
        self._asked_at: dict[str, int] = {}  # of a consumer group: to give up what others wait for
        self._gave_up_after: dict[str, int] = {}
        self._before: deque[Change] = deque()  # a rebalance that has not been told yet
        self._further_before: dict[str, int] = {}  # how many more, as in a rebalance
        self._seen_topics: dict[str, int] = {}
        self._assignor: str | None = None

    @property
    def waits_for_joins(self) -> bool:
        return self._open is not None and self._joined_at is None

    def rejoined(self, member_id: str, at: int) -> None:
        if self.waits_for_joins:
            self._rejoined.setdefault(member_id, at)

    # -- of classic groups

    def started(self, event: told.RebalanceStarted) -> None:
        if self._open is not None:
            self._end(event.at_ms, Outcome.SUPERSEDED)
        rebalance = self._begin(event.at_ms, CLASSIC, event.generation, event.cause, event.reason)
        rebalance.is_first = event.is_initial
        for member_id in event.member_ids:
            self._rejoined[member_id] = event.at_ms

    def joins_completed(self, event: told.JoinsCompleted) -> None:
        rebalance = self._open
        if rebalance is None:
            return
        rebalance.generation = event.generation
        rebalance.join_ms = event.at_ms - rebalance.at
        rebalance.members = event.members
        rebalance.leader = self._roster.label(event.leader)
        rebalance.assignor = self._assignor = kept(event.protocol)
        if not rebalance.is_first:
            rebalance.slow = self._slow({who: at - rebalance.at for who, at in self._rejoined.items()})
        self._joined_at = event.at_ms
        self._book.write(rebalance)

    def assignment_received(self, event: told.AssignmentReceived) -> None:
        if self._open is not None and self._joined_at is not None:
            self._open.assign_ms = event.at_ms - self._joined_at

    def completed(self, event: told.RebalanceCompleted) -> None:
        rebalance = self._open
        if rebalance is None:
            return
        if self._joined_at is not None:
            rebalance.settle_ms = event.at_ms - self._joined_at - (rebalance.assign_ms or 0)
        self._share({member_id: owned_by(assignment) for member_id, assignment in event.assignments})
        self._end(event.at_ms, Outcome.COMPLETED)

    def emptied(self, event: told.GroupEmptied) -> None:
        if self._open is not None:
            self._open.generation = event.generation
        self.owned = {}
        self._end(event.at_ms, Outcome.EMPTY)

    # -- and of consumer groups

    def epoch_bumped(self, event: told.EpochBumped) -> None:
        if self._open is None:
            is_first = len(self._roster.members) <= 1 and not self.owned
            rebalance = self._begin(event.at_ms, CONSUMER, event.generation, event.cause, event.reason)
            rebalance.is_first = is_first
        else:
            rebalance = self._open
            self._take_causes(rebalance, event.at_ms, event.cause, event.reason)
        rebalance.generation, rebalance.members = event.generation, len(self._roster.members)
        if not self._roster.members:
            self.owned = {}
            self._end(event.at_ms, Outcome.EMPTY)

    def target_computed(self, event: told.TargetComputed) -> None:
        self._goal = {member_id: owned_in(each, self._topics.name_of) for member_id, each in event.targets.items()}
        rebalance = self._open
        if rebalance is not None:
            rebalance.assignor = self._assignor = event.assignor
            rebalance.assign_ms = (rebalance.assign_ms or 0) + event.took_ms

    def revocation_asked(self, event: told.RevocationAsked) -> None:
        self._asked_at.setdefault(event.member_id, event.at_ms)

    def revocation_acknowledged(self, event: told.RevocationAcknowledged) -> None:
        """Only who has something that others wait for can be slow: those who wait for it are not."""
        asked_at = self._asked_at.pop(event.member_id, None)
        if asked_at is not None:
            took_ms = event.at_ms - asked_at
            self._gave_up_after[event.member_id] = max(took_ms, self._gave_up_after.get(event.member_id, 0))

    def group_reconciled(self, event: told.GroupReconciled) -> None:
        rebalance = self._open
        if rebalance is None:
            return
        rebalance.members = event.members
        rebalance.settle_ms = event.at_ms - rebalance.at
        rebalance.slow = self._slow(self._gave_up_after)
        self._share(self._goal if self._goal is not None else {})
        self._end(event.at_ms, Outcome.COMPLETED)

    # -- of both

    def _begin(self, at: int, protocol: str, generation: int, cause: Cause, reason: str | None) -> Rebalance:
        rebalance = self._open = Rebalance(self._book.number(), at, protocol, generation)
        self._joined_at = None
        self._rejoined = {}
        self._asked_at, self._gave_up_after = {}, {}
        self._take_causes(rebalance, at, cause, reason)
        self._book.write(rebalance)
        return rebalance

    def _take_causes(self, rebalance: Rebalance, at: int, cause: Cause, reason: str | None) -> None:
        causes = [self._understood(change, cause) for change in self._before]
        self._before.clear()
        if (what := _PLAIN_CAUSES.get(cause)) is not None and not causes:
            changed = self._partitions_changed(at) if what is What.PARTITIONS_CHANGED else None
            causes = [changed or Change(at, what, reason=reason)]
        for change in causes:
            self._add(rebalance, change)
        for name, count in self._further_before.items():
            rebalance.further[name] = rebalance.further.get(name, 0) + count
        self._further_before = {}

    def _understood(self, change: Change, cause: Cause) -> Change:
        """A member that joins again says little: what else is known tells why."""
        if change.what is not What.REJOINED:
            return change
        changed = self._partitions_changed(change.at)
        if changed is not None:
            changed.who, changed.reason = change.who, change.reason
            return changed
        if self._assignor is not None and "cooperative" in self._assignor:
            change.what = What.HANDED_OVER
        elif cause is Cause.LEADER_REJOINED:
            change.what = What.LEADER_REJOINED
        return change

    def _partitions_changed(self, at: int) -> Change | None:
        now = self._topics_now()
        before = self._seen_topics
        differ = [name for name in before.keys() | now.keys() if before.get(name, 0) != now.get(name, 0)]
        if not before or not differ:
            return None
        differ.sort()
        return Change(
            at, What.PARTITIONS_CHANGED,
            before=[f"{name}: {before.get(name, 0)}" for name in differ[:KEPT_NAMES]],
            after=[f"{name}: {now.get(name, 0)}" for name in differ[:KEPT_NAMES]],
        )  # fmt: skip

    def _topics_now(self) -> dict[str, int]:
        names = sorted({name for member in self._roster.members.values() for name in member.subscription})
        counts = {name: self._topics.partitions_of(name) for name in names}
        return {name: count for name, count in counts.items() if count is not None}

    def changed(self, change: Change) -> Entry | None:
        """Belongs to the rebalance that is under way, as long as that waits for members; or to the next one."""
        rebalance = self._open
        if rebalance is None or (self._joined_at is not None and rebalance.protocol == CLASSIC):
            if len(self._before) == KEPT_CHANGES:
                what = self._before.popleft().what.value
                self._further_before[what] = self._further_before.get(what, 0) + 1
            self._before.append(change)
            return None
        self._add(rebalance, change)
        return rebalance

    def _add(self, rebalance: Rebalance, change: Change) -> None:
        if len(rebalance.changes) < KEPT_CHANGES:
            rebalance.changes.append(change)
        else:
            what = change.what.value
            rebalance.further[what] = rebalance.further.get(what, 0) + 1
        self._roster.is_told_in(change, rebalance)
        self._book.write(rebalance)

    def _share(self, now: Mapping[str, Owned]) -> None:
        rebalance = self._open
        assert rebalance is not None
        rebalance.moved, rebalance.moves = moved(self.owned, now, self._roster.label)
        rebalance.partitions = sum(map(count_of, now.values()))
        idle = [self._roster.label(member_id) for member_id, owned in now.items() if not owned]
        rebalance.idle_count, rebalance.idle = len(idle), idle[:KEPT_NAMES]
        self.owned = dict(now)

    def _end(self, at: int, outcome: Outcome) -> None:
        rebalance, self._open = self._open, None
        self._joined_at = None
        if rebalance is None:
            return
        rebalance.ended, rebalance.outcome = at, outcome
        rebalance.stood_still_ms = self._standstills.between(rebalance.at, at)
        for change in rebalance.changes:
            if change.peer is None and change.who is not None and change.what in (What.JOINED, What.STATIC_REPLACED):
                change.peer = self._roster.peer_of(change.who.id)
        self._seen_topics = self._topics_now()
        rebalance.topics = dict(list(self._seen_topics.items())[:KEPT_NAMES])
        if outcome is not Outcome.SUPERSEDED:
            self._roster.forget_labels()
        self._book.roll_has_changed = True
        self._book.write(rebalance)
        self._on_end(rebalance)

    def _slow(self, after_ms: Mapping[str, int]) -> list[Slow]:
        slowest = sorted(after_ms.items(), key=lambda each: -each[1])[:_SLOW]
        return [Slow(self._roster.label(member_id), ms) for member_id, ms in slowest if ms >= _SLOW_MS]


_PLAIN_CAUSES: Final = {
    Cause.OVER_CAPACITY: What.OVER_CAPACITY,
    Cause.ASSIGNMENT_NOT_STORED: What.NOT_STORED,
    Cause.PARTITIONS_CHANGED: What.PARTITIONS_CHANGED,
    Cause.ASSIGNOR_CHANGED: What.ASSIGNOR_CHANGED,
    Cause.PROTOCOL_CHANGED: What.PROTOCOL_CHANGED,
    Cause.LEADER_REJOINED: What.LEADER_REJOINED,
    Cause.MEMBER_CHANGED: What.REJOINED,
}
"""Those that no event about a member comes before."""
