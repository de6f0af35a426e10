"""Makes the history of one group out of what happens to it.

Facts come in the order in which they were decided; those that begin a rebalance come just before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.coordinator.group import events as told
from ottla.coordinator.group.events import Event
from ottla.coordinator.group.history.book import Book
from ottla.coordinator.group.history.contacts import Contact, Contacts
from ottla.coordinator.group.history.entries import Change, Entry, Evidence, Rebalance, Roll, What, Who, named
from ottla.coordinator.group.history.incidents import CommitsStalled, Incidents
from ottla.coordinator.group.history.moves import NOTHING, count_of
from ottla.coordinator.group.history.rebalances import Rebalances, Topics
from ottla.coordinator.group.history.roster import Member, Roster, look
from ottla.coordinator.group.history.standstills import Standstills


@dataclass(frozen=True, slots=True)
class RemovedByAnother(Event):
    """That a member left was said by somebody who is not at its own connection."""

    member_id: str


class Chronicle:
    def __init__(
        self,
        group_id: str,
        contacts: Contacts,
        topics: Topics,
        standstills: Standstills,
        on_end: Callable[[str, Rebalance], None],
    ) -> None:
        self.group_id = group_id
        self.book = Book()
        self._contacts = contacts
        self._standstills = standstills
        self._roster = Roster(group_id, contacts)
        self._rebalances = Rebalances(
            self.book, self._roster, topics, standstills, lambda rebalance: on_end(group_id, rebalance)
        )  # fmt: skip
        self._incidents = Incidents(self.book)
        self._taken_over: int | None = None
        self._contact: Contact | None = None  # of the event that is being taken

    # -- from and to what is stored

    def restore(self, roll: Roll, now_ms: int) -> None:
        """Another coordinator kept this history before."""
        self.book.next_number = roll.next_number
        self._taken_over = now_ms
        self._roster.restore(roll.members)

    def roll(self, now_ms: int) -> Roll:
        return Roll(now_ms, self.book.next_number, self._roster.present(self._partitions_of))

    def forget(self) -> None:
        self._roster.forget()

    def _partitions_of(self, member_id: str) -> int:
        return count_of(self._rebalances.owned.get(member_id, NOTHING))

    # -- events

    def take(self, event: Event, contact: Contact | None = None) -> None:
        """With the contact, as it was then, of the member that it is about."""
        self._contact = contact
        if (handler := _HANDLERS.get(type(event))) is not None:
            handler(self, event)
        if (phase := _PHASES.get(type(event))) is not None:
            phase(self._rebalances, event)

    def contact_changed(self, contact: Contact) -> None:
        """Of one that is no member any more something was heard, or its connection has ended."""
        self._write_again(self._roster.look_again(contact))

    def _removed_by_another(self, event: RemovedByAnother) -> None:
        self._write_again(self._roster.was_removed(event.member_id))

    def _write_again(self, entry: Entry | None) -> None:
        if entry is not None:
            self.book.write(entry)

    # -- members

    def _member_joined(self, event: told.MemberJoined) -> None:
        who = Who(event.member_id, event.client_id, event.client_host.removeprefix("/"), event.instance_id)
        contact = self._contact or self._contacts.renew(self.group_id, event.member_id)
        self._roster.members[event.member_id] = Member(
            who, contact, event.at_ms, event.session_timeout_ms, event.rebalance_timeout_ms, event.subscription
        )
        topics = named(event.subscription)
        self._rebalances.changed(Change(event.at_ms, What.JOINED, who, event.reason, contact.peer, after=topics))

    def _member_rejoined(self, event: told.MemberRejoined) -> None:
        """The first of a rebalance is its cause; the others have heard of it."""
        self._rebalances.rejoined(event.member_id, event.at_ms)
        member = self._roster.members.get(event.member_id)
        if member is None:
            return
        before, member.subscription = member.subscription, event.subscription
        if before and before != event.subscription:
            self._rebalances.changed(
                Change(
                    event.at_ms, What.SUBSCRIPTION_CHANGED, member.who, event.reason,
                    before=named(before), after=named(event.subscription),
                )
            )  # fmt: skip
        elif not self._rebalances.waits_for_joins:
            self._rebalances.changed(Change(event.at_ms, What.REJOINED, member.who, event.reason))

    def _member_left(self, event: told.MemberLeft) -> None:
        what = What.REMOVED if event.by_administrator else What.LEFT
        self._departed(event.at_ms, event.member_id, what, event.client_id, event.instance_id, event.reason)

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
        member = self._roster.members.pop(member_id, None)
        contact = self._contact or self._contacts.gone(self.group_id, member_id, at)
        evidence = Evidence(partitions=self._partitions_of(member_id), taken_over=self._taken_over)
        if member is None:
            who = Who(member_id, client, "", instance)
        else:
            who = member.who
            evidence.joined = member.joined
            evidence.session_ms, evidence.poll_ms = member.session_ms, member.poll_ms
            evidence.heard, evidence.committed = contact.heard_ms, contact.committed_ms
            evidence.stood_still_ms = self._standstills.longest(_silent_since(what, at, evidence), at)
        self._roster.keep_label(who, member_id)
        change = Change(at, what, who, reason, evidence=evidence)
        look(change, contact)
        self._remember(contact, change, self._rebalances.changed(change))

    def _remember(self, contact: Contact, change: Change, entry: Entry | None) -> None:
        self._roster.remember(contact, change, entry)
        self.book.roll_has_changed = True

    def _static_replaced(self, event: told.StaticMemberReplaced) -> None:
        old = self._roster.members.pop(event.old_member_id, None)
        contact = self._contact or self._contacts.add(self.group_id, event.member_id)
        host = event.client_host.removeprefix("/")
        who = Who(event.member_id, event.client_id, host, event.instance_id)
        evidence = Evidence(taken_over=self._taken_over)
        if old is not None:
            who = Who(event.member_id, event.client_id or old.who.client, host or old.who.host, event.instance_id)
            self._roster.members[event.member_id] = Member(
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
        owned = self._rebalances.owned
        if event.old_member_id in owned:
            owned[event.member_id] = owned.pop(event.old_member_id)
        former = self._contacts.gone(self.group_id, event.old_member_id, event.at_ms)
        look(change, former)
        self._remember(
            former, change, self._rebalances.changed(change) if event.rebalances else self._incidents.note(change)
        )

    def _static_away(self, event: told.StaticMemberWentAway) -> None:
        self._incidents.note(
            Change(event.at_ms, What.STATIC_AWAY, self._roster.who(event.member_id, event.instance_id))
        )

    def _fenced(self, event: told.MemberFenced) -> None:
        who = self._roster.who(event.member_id, event.instance_id)
        self._incidents.note(Change(event.at_ms, What.FENCED, who, event.operation, rebalances=False))

    def _refused(self, event: told.MemberRefused) -> None:
        who = Who(event.member_id, event.client_id)
        self._incidents.note(Change(event.at_ms, What.REFUSED, who, event.error, rebalances=False))

    def _subscription_changed(self, event: told.SubscriptionChanged) -> None:
        member = self._roster.members.get(event.member_id)
        if member is None:
            return
        before, member.subscription = member.subscription, event.subscription
        self._rebalances.changed(
            Change(
                event.at_ms, What.SUBSCRIPTION_CHANGED, member.who,
                before=named(before), after=named(event.subscription),
            )
        )  # fmt: skip

    def _dropped(self, event: told.JoinsCompleted | told.GroupEmptied) -> None:
        for member_id in event.dropped:
            self._departed(event.at_ms, member_id, What.REJOIN_MISSED)

    def _commits_stalled(self, event: CommitsStalled) -> None:
        self._incidents.commits_stalled(event)

    def _loaded(self, event: told.GroupLoaded) -> None:
        self._taken_over = event.at_ms


def _silent_since(what: What, at: int, seen: Evidence) -> int:
    """From when on something was expected of a member, and did not come; of its client: an answer."""
    match what:
        case What.EXPIRED:
            return (seen.heard if seen.heard is not None else at) - seen.session_ms
        case What.LEFT:
            return seen.committed if seen.committed is not None else at - seen.poll_ms
    return at - seen.poll_ms


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
    told.JoinsCompleted: Chronicle._dropped,
    told.GroupEmptied: Chronicle._dropped,
    told.GroupLoaded: Chronicle._loaded,
    CommitsStalled: Chronicle._commits_stalled,
}

_PHASES: Final[dict[type[Event], Callable[[Rebalances, Any], None]]] = {
    told.RebalanceStarted: Rebalances.started,
    told.JoinsCompleted: Rebalances.joins_completed,
    told.AssignmentReceived: Rebalances.assignment_received,
    told.RebalanceCompleted: Rebalances.completed,
    told.GroupEmptied: Rebalances.emptied,
    told.EpochBumped: Rebalances.epoch_bumped,
    told.TargetComputed: Rebalances.target_computed,
    told.RevocationAsked: Rebalances.revocation_asked,
    told.RevocationAcknowledged: Rebalances.revocation_acknowledged,
    told.GroupReconciled: Rebalances.group_reconciled,
}
