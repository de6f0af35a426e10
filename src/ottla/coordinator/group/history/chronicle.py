"""Makes the history of one group out of what happens to it.

Facts come in the order in which they were decided; those that begin a rebalance come just before it. A rebalance is
open
from its beginning until its members know what they have; what happens meanwhile belongs to it. In a classic group one
that begins before the last is complete takes its place; a consumer group only has its goal moved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.coordinator.group import events as told
from ottla.coordinator.group.events import Cause, Event, Topic
from ottla.coordinator.group.history.contacts import Contact, Contacts
from ottla.coordinator.group.history.entries import (
    KEPT_CHANGES,
    KEPT_MEMBERS,
    KEPT_NAMES,
    Change,
    Entry,
    Evidence,
    Incident,
    Outcome,
    Present,
    Rebalance,
    Roll,
    Slow,
    What,
    Who,
    kept,
)
from ottla.coordinator.group.history.moves import NOTHING, Owned, count_of, moved, owned_by, owned_in

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
_GONE: Final = 64  # members that are no more, of whom something may still be heard
_SLOW: Final = 5
_SLOW_MS: Final = 500
_OPEN_INCIDENTS: Final = 8  # that are counted on, if they happen again


@dataclass(frozen=True, slots=True)
class RemovedByAnother(Event):
    """That a member left was said by somebody who is not at its own connection."""

    member_id: str


@dataclass(frozen=True, slots=True)
class CommitsStalled(Event):
    """Nothing was committed for a while, though there is something to read; `lag` says where.

    Told again and again, as long as it is so.
    """

    since_ms: int
    lag: tuple[str, ...]


@dataclass(slots=True)
class Topics:
    """What the metadata says now."""

    name_of: Callable[[Topic], str]
    partitions_of: Callable[[str], int | None]


@dataclass(slots=True)
class _Member:
    who: Who
    contact: Contact
    joined: int
    session_ms: int
    poll_ms: int
    subscription: tuple[str, ...]


@dataclass(slots=True)
class _Gone:
    contact: Contact
    change: Change
    entry: Entry | None = None


class Chronicle:
    def __init__(
        self, group_id: str, contacts: Contacts, topics: Topics, on_end: Callable[[str, Rebalance], None]
    ) -> None:
        self.group_id = group_id
        self.next_number = 0
        self.to_write: dict[int, Entry] = {}
        """Entries that are new or have changed since somebody took them from here."""
        self.roll_has_changed = False
        self._contacts = contacts
        self._topics = topics
        self._on_end = on_end
        self._members: dict[str, _Member] = {}
        self._labels: dict[str, str] = {}  # of members that are gone, until what they had is with others
        self._owned: dict[str, Owned] = {}
        self._goal: Mapping[str, Owned] | None = None
        self._open: Rebalance | None = None
        self._joined_at: int | None = None  # when the joins of the open one were complete
        self._rejoined: dict[str, int] = {}
        self._before: deque[Change] = deque()  # a rebalance that has not been told yet
        self._further_before: dict[str, int] = {}  # how many more, as in a rebalance
        self._gone: deque[_Gone] = deque()
        self._incidents: deque[Incident] = deque(maxlen=_OPEN_INCIDENTS)
        self._seen_topics: dict[str, int] = {}
        self._assignor: str | None = None
        self._taken_over: int | None = None
        self._contact: Contact | None = None  # of the event that is being taken

    # -- from and to what is stored

    def restore(self, roll: Roll, now_ms: int) -> None:
        """Another coordinator kept this history before."""
        self.next_number = roll.next_number
        self._taken_over = now_ms
        for present in roll.members:
            contact = self._contacts.add(self.group_id, present.who.id)
            contact.committed_ms = present.committed
            self._members[present.who.id] = _Member(
                present.who, contact, present.joined, present.session_ms, present.poll_ms, tuple(present.subscription)
            )

    def roll(self, now_ms: int) -> Roll:
        members = [
            Present(
                member.who,
                member.joined,
                member.contact.heard_ms,
                member.contact.committed_ms,
                member.contact.peer,
                member.session_ms,
                member.poll_ms,
                count_of(self._owned.get(member_id, NOTHING)),
                list(member.subscription[:KEPT_NAMES]),
            )
            for member_id, member in list(self._members.items())[:KEPT_MEMBERS]
        ]
        return Roll(now_ms, self.next_number, members)

    def forget(self) -> None:
        """Nothing of this group is to be known any more."""
        for member in self._members.values():
            self._contacts.forget(member.contact)
        while self._gone:
            self._contacts.forget(self._gone.popleft().contact)

    # -- events

    def take(self, event: Event, contact: Contact | None = None) -> None:
        """With the contact, as it was then, of the member that it is about."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            self._contact = contact
            handler(self, event)

    def contact_changed(self, contact: Contact) -> None:
        """Of one that is no member any more something was heard, or its connection has ended."""
        for gone in self._gone:
            if gone.contact is contact:
                _look(gone.change, contact)
                if gone.entry is not None:
                    self.to_write[gone.entry.number] = gone.entry
                return

    # -- members

    def _member_joined(self, event: told.MemberJoined) -> None:
        who = Who(event.member_id, event.client_id, event.client_host.removeprefix("/"), event.instance_id)
        contact = self._contact or self._contacts.renew(self.group_id, event.member_id)
        self._members[event.member_id] = _Member(
            who, contact, event.at_ms, event.session_timeout_ms, event.rebalance_timeout_ms, event.subscription
        )
        topics = _named(event.subscription)
        self._changed(Change(event.at_ms, What.JOINED, who, event.reason, contact.peer, after=topics))

    def _member_rejoined(self, event: told.MemberRejoined) -> None:
        """The first of a rebalance is its cause; the others have heard of it."""
        if self._open is not None and self._joined_at is None:
            self._rejoined.setdefault(event.member_id, event.at_ms)
        member = self._members.get(event.member_id)
        if member is None:
            return
        before, member.subscription = member.subscription, event.subscription
        if before and before != event.subscription:
            self._changed(
                Change(
                    event.at_ms, What.SUBSCRIPTION_CHANGED, member.who, event.reason,
                    before=_named(before), after=_named(event.subscription),
                )
            )  # fmt: skip
        elif self._open is None or self._joined_at is not None:
            self._changed(Change(event.at_ms, What.REJOINED, member.who, event.reason))

    def _member_left(self, event: told.MemberLeft) -> None:
        what = What.REMOVED if event.by_administrator else What.LEFT
        self._departed(event.at_ms, event.member_id, what, event.client_id, event.instance_id, event.reason)

    def _removed_by_another(self, event: RemovedByAnother) -> None:
        for gone in reversed(self._gone):
            if gone.contact.member_id == event.member_id and gone.change.what is What.LEFT:
                gone.change.what = What.REMOVED
                if gone.entry is not None:
                    self.to_write[gone.entry.number] = gone.entry
                return

    def _member_expired(self, event: told.MemberExpired) -> None:
        self._departed(event.at_ms, event.member_id, What.EXPIRED, event.client_id, event.instance_id)

    def _revocation_missed(self, event: told.RevocationMissed) -> None:
        self._departed(event.at_ms, event.member_id, What.REVOCATION_MISSED, event.client_id, event.instance_id)

    def _syncs_missed(self, event: told.SyncsMissed) -> None:
        for member_id in event.member_ids:
            self._departed(event.at_ms, member_id, What.SYNC_MISSED)

    def _departed(
        self,
        at: int,
        member_id: str,
        what: What,
        client: str = "",
        instance: str | None = None,
        reason: str | None = None,
    ) -> None:
        member = self._members.pop(member_id, None)
        contact = self._contact or self._contacts.gone(self.group_id, member_id, at)
        evidence = Evidence(partitions=count_of(self._owned.get(member_id, NOTHING)), taken_over=self._taken_over)
        if member is None:
            who = Who(member_id, client, "", instance)
        else:
            who = member.who
            evidence.joined = member.joined
            evidence.session_ms, evidence.poll_ms = member.session_ms, member.poll_ms
            evidence.heard, evidence.committed = contact.heard_ms, contact.committed_ms
        self._labels[member_id] = who.label
        change = Change(at, what, who, reason, evidence=evidence)
        _look(change, contact)
        self._remember(contact, change, self._changed(change))

    def _remember(self, contact: Contact, change: Change, entry: Entry | None) -> None:
        """Of whom something may still be heard."""
        self._gone.append(_Gone(contact, change, entry))
        while len(self._gone) > _GONE:
            self._contacts.forget(self._gone.popleft().contact)
        self.roll_has_changed = True

    def _static_replaced(self, event: told.StaticMemberReplaced) -> None:
        old = self._members.pop(event.old_member_id, None)
        contact = self._contact or self._contacts.add(self.group_id, event.member_id)
        host = event.client_host.removeprefix("/")
        who = Who(event.member_id, event.client_id, host, event.instance_id)
        evidence = Evidence(taken_over=self._taken_over)
        if old is not None:
            who = Who(event.member_id, event.client_id or old.who.client, host or old.who.host, event.instance_id)
            self._members[event.member_id] = _Member(
                who, contact, event.at_ms, old.session_ms, old.poll_ms, old.subscription
            )
            evidence = Evidence(
                old.joined, old.contact.heard_ms, old.contact.committed_ms, old.session_ms, old.poll_ms,
                taken_over=self._taken_over,
            )  # fmt: skip
        change = Change(
            event.at_ms, What.STATIC_REPLACED, who, peer=contact.peer, old_id=event.old_member_id,
            rebalances=event.rebalances, evidence=evidence,
        )  # fmt: skip
        if event.old_member_id in self._owned:
            self._owned[event.member_id] = self._owned.pop(event.old_member_id)
        former = self._contacts.gone(self.group_id, event.old_member_id, event.at_ms)
        _look(change, former)
        self._remember(former, change, self._changed(change) if event.rebalances else self._incident(change))

    def _static_away(self, event: told.StaticMemberWentAway) -> None:
        self._incident(Change(event.at_ms, What.STATIC_AWAY, self._who(event.member_id, event.instance_id)))

    def _fenced(self, event: told.MemberFenced) -> None:
        who = self._who(event.member_id, event.instance_id)
        self._incident(Change(event.at_ms, What.FENCED, who, event.operation, rebalances=False))

    def _refused(self, event: told.MemberRefused) -> None:
        who = Who(event.member_id, event.client_id)
        self._incident(Change(event.at_ms, What.REFUSED, who, event.error, rebalances=False))

    def _subscription_changed(self, event: told.SubscriptionChanged) -> None:
        member = self._members.get(event.member_id)
        if member is None:
            return
        before, member.subscription = member.subscription, event.subscription
        self._changed(
            Change(
                event.at_ms, What.SUBSCRIPTION_CHANGED, member.who,
                before=_named(before), after=_named(event.subscription),
            )
        )  # fmt: skip

    def _who(self, member_id: str, instance_id: str | None = None) -> Who:
        member = self._members.get(member_id)
        if member is not None:
            return member.who
        for gone in reversed(self._gone):
            if gone.contact.member_id == member_id and gone.change.who is not None:
                who = gone.change.who
                return Who(member_id, who.client, who.host, who.instance)
        return Who(member_id, instance=instance_id)

    def _label(self, member_id: str) -> str:
        member = self._members.get(member_id)
        if member is not None:
            return member.who.label
        return self._labels.get(member_id) or Who(member_id).label

    # -- rebalances of classic groups

    def _started(self, event: told.RebalanceStarted) -> None:
        if self._open is not None:
            self._end(event.at_ms, Outcome.SUPERSEDED)
        rebalance = self._begin(event.at_ms, CLASSIC, event.generation, event.cause, event.reason)
        rebalance.is_first = event.is_initial
        for member_id in event.member_ids:
            self._rejoined[member_id] = event.at_ms

    def _joins_completed(self, event: told.JoinsCompleted) -> None:
        rebalance = self._open
        if rebalance is None:
            return
        for member_id in event.dropped:
            self._departed(event.at_ms, member_id, What.REJOIN_MISSED)
        rebalance.generation = event.generation
        rebalance.join_ms = event.at_ms - rebalance.at
        rebalance.members = event.members
        rebalance.leader = self._label(event.leader)
        rebalance.assignor = self._assignor = kept(event.protocol)
        if not rebalance.is_first:
            rebalance.slow = self._slow({who: at - rebalance.at for who, at in self._rejoined.items()})
        self._joined_at = event.at_ms
        self._to_write(rebalance)

    def _assignment_received(self, event: told.AssignmentReceived) -> None:
        if self._open is not None and self._joined_at is not None:
            self._open.assign_ms = event.at_ms - self._joined_at

    def _completed(self, event: told.RebalanceCompleted) -> None:
        rebalance = self._open
        if rebalance is None:
            return
        if self._joined_at is not None:
            rebalance.settle_ms = event.at_ms - self._joined_at - (rebalance.assign_ms or 0)
        self._share({member_id: owned_by(assignment) for member_id, assignment in event.assignments})
        self._end(event.at_ms, Outcome.COMPLETED)

    def _emptied(self, event: told.GroupEmptied) -> None:
        for member_id in event.dropped:
            self._departed(event.at_ms, member_id, What.REJOIN_MISSED)
        if self._open is not None:
            self._open.generation = event.generation
        self._owned = {}
        self._end(event.at_ms, Outcome.EMPTY)

    # -- and of consumer groups

    def _epoch_bumped(self, event: told.EpochBumped) -> None:
        if self._open is None:
            is_first = len(self._members) <= 1 and not self._owned
            rebalance = self._begin(event.at_ms, CONSUMER, event.generation, event.cause, event.reason)
            rebalance.is_first = is_first
        else:
            rebalance = self._open
            self._take_causes(rebalance, event.at_ms, event.cause, event.reason)
        rebalance.generation, rebalance.members = event.generation, len(self._members)
        if not self._members:
            self._owned = {}
            self._end(event.at_ms, Outcome.EMPTY)

    def _target_computed(self, event: told.TargetComputed) -> None:
        self._goal = {member_id: owned_in(each, self._topics.name_of) for member_id, each in event.targets.items()}
        rebalance = self._open
        if rebalance is not None:
            rebalance.assignor = self._assignor = event.assignor
            rebalance.assign_ms = (rebalance.assign_ms or 0) + event.took_ms

    def _member_reconciled(self, event: told.MemberReconciled) -> None:
        if self._open is not None:
            self._rejoined[event.member_id] = event.at_ms

    def _group_reconciled(self, event: told.GroupReconciled) -> None:
        rebalance = self._open
        if rebalance is None:
            return
        rebalance.members = event.members
        rebalance.settle_ms = event.at_ms - rebalance.at
        rebalance.slow = self._slow({who: at - rebalance.at for who, at in self._rejoined.items()})
        self._share(self._goal if self._goal is not None else {})
        self._end(event.at_ms, Outcome.COMPLETED)

    # -- of both

    def _begin(self, at: int, protocol: str, generation: int, cause: Cause, reason: str | None) -> Rebalance:
        rebalance = self._open = Rebalance(self._number(), at, protocol, generation)
        self._joined_at = None
        self._rejoined = {}
        self._take_causes(rebalance, at, cause, reason)
        self._to_write(rebalance)
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
        names = sorted({name for member in self._members.values() for name in member.subscription})
        counts = {name: self._topics.partitions_of(name) for name in names}
        return {name: count for name, count in counts.items() if count is not None}

    def _changed(self, change: Change) -> Entry | None:
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
        for gone in self._gone:
            if gone.entry is None and gone.change is change:
                gone.entry = rebalance
        self._to_write(rebalance)

    def _share(self, now: Mapping[str, Owned]) -> None:
        rebalance = self._open
        assert rebalance is not None
        rebalance.moved, rebalance.moves = moved(self._owned, now, self._label)
        rebalance.partitions = sum(map(count_of, now.values()))
        idle = [self._label(member_id) for member_id, owned in now.items() if not owned]
        rebalance.idle_count, rebalance.idle = len(idle), idle[:KEPT_NAMES]
        self._owned = dict(now)

    def _end(self, at: int, outcome: Outcome) -> None:
        rebalance, self._open = self._open, None
        self._joined_at = None
        if rebalance is None:
            return
        rebalance.ended, rebalance.outcome = at, outcome
        for change in rebalance.changes:
            if change.peer is None and change.who is not None and change.what in (What.JOINED, What.STATIC_REPLACED):
                contact = self._contacts.get(self.group_id, change.who.id)
                change.peer = None if contact is None else contact.peer
        self._seen_topics = self._topics_now()
        rebalance.topics = dict(list(self._seen_topics.items())[:KEPT_NAMES])
        if outcome is not Outcome.SUPERSEDED:
            self._labels = {}
        self.roll_has_changed = True
        self._to_write(rebalance)
        self._on_end(self.group_id, rebalance)

    def _slow(self, after_ms: Mapping[str, int]) -> list[Slow]:
        slowest = sorted(after_ms.items(), key=lambda each: -each[1])[:_SLOW]
        return [Slow(self._label(member_id), ms) for member_id, ms in slowest if ms >= _SLOW_MS]

    def _incident(self, change: Change) -> Incident:
        for known in self._incidents:
            if known.change.what is change.what and known.change.who == change.who:
                known.count, known.last = known.count + 1, change.at
                self._to_write(known)
                return known
        incident = Incident(self._number(), change.at, change, last=change.at)
        self._incidents.append(incident)
        self._to_write(incident)
        return incident

    def _commits_stalled(self, event: CommitsStalled) -> None:
        lag = _named(event.lag)
        for known in self._incidents:
            if known.change.what is What.COMMITS_STALLED and event.since_ms <= known.last:
                known.last, known.change.after = event.at_ms, lag
                self._to_write(known)
                return
        incident = Incident(self._number(), event.since_ms, Change(event.since_ms, What.COMMITS_STALLED, after=lag))
        incident.last = event.at_ms
        self._incidents.append(incident)
        self._to_write(incident)

    def _loaded(self, event: told.GroupLoaded) -> None:
        self._taken_over = event.at_ms

    def _number(self) -> int:
        number, self.next_number = self.next_number, self.next_number + 1
        self.roll_has_changed = True
        return number

    def _to_write(self, entry: Entry) -> None:
        self.to_write[entry.number] = entry


def _look(change: Change, contact: Contact) -> None:
    evidence = change.evidence
    if evidence is not None:
        evidence.peer, evidence.closed, evidence.end = contact.peer, contact.closed_ms, contact.end
        evidence.returned = contact.returned_ms


def _named(topics: tuple[str, ...]) -> list[str]:
    return list(topics[:KEPT_NAMES])


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

_HANDLERS: Final[dict[type[Event], Callable[[Chronicle, Any], None]]] = {
    told.MemberJoined: Chronicle._member_joined,
    told.MemberRejoined: Chronicle._member_rejoined,
    told.MemberLeft: Chronicle._member_left,
    RemovedByAnother: Chronicle._removed_by_another,
    told.MemberExpired: Chronicle._member_expired,
    told.RevocationMissed: Chronicle._revocation_missed,
    told.SyncsMissed: Chronicle._syncs_missed,
    told.StaticMemberReplaced: Chronicle._static_replaced,
    told.StaticMemberWentAway: Chronicle._static_away,
    told.MemberFenced: Chronicle._fenced,
    told.MemberRefused: Chronicle._refused,
    told.SubscriptionChanged: Chronicle._subscription_changed,
    told.RebalanceStarted: Chronicle._started,
    told.JoinsCompleted: Chronicle._joins_completed,
    told.AssignmentReceived: Chronicle._assignment_received,
    told.RebalanceCompleted: Chronicle._completed,
    told.GroupEmptied: Chronicle._emptied,
    told.EpochBumped: Chronicle._epoch_bumped,
    told.TargetComputed: Chronicle._target_computed,
    told.MemberReconciled: Chronicle._member_reconciled,
    told.GroupReconciled: Chronicle._group_reconciled,
    told.GroupLoaded: Chronicle._loaded,
    CommitsStalled: Chronicle._commits_stalled,
}
