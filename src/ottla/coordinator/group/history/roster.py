"""Who is in a group, and who was until a while ago: of those something may still be heard."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.coordinator.group.history.contacts import Contact, Contacts
from ottla.coordinator.group.history.entries import (
    KEPT_MEMBERS,
    KEPT_NAMES,
    Change,
    Entry,
    Present,
    What,
    Who,
)

_GONE: Final = 64


@dataclass(slots=True)
class Member:
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


class Roster:
    def __init__(self, group_id: str, contacts: Contacts) -> None:
        self.members: dict[str, Member] = {}
        self._group_id = group_id
        self._contacts = contacts
        self._labels: dict[str, str] = {}  # of members that are gone, until what they had is with others
        self._gone: deque[_Gone] = deque()

    def restore(self, members: list[Present]) -> None:
        """As another coordinator has written them down."""
        for present in members:
            contact = self._contacts.add(self._group_id, present.who.id)
            contact.committed_ms = present.committed
            self.members[present.who.id] = Member(
                present.who, contact, present.joined, present.session_ms, present.poll_ms, tuple(present.subscription)
            )

    def present(self, partitions_of: Callable[[str], int]) -> list[Present]:
        return [
            Present(
                member.who,
                member.joined,
                member.contact.heard_ms,
                member.contact.committed_ms,
                member.contact.peer,
                member.session_ms,
                member.poll_ms,
                partitions_of(member_id),
                list(member.subscription[:KEPT_NAMES]),
            )
            for member_id, member in list(self.members.items())[:KEPT_MEMBERS]
        ]

    def forget(self) -> None:
        """Nothing of this group is to be known any more."""
        for member in self.members.values():
            self._contacts.forget(member.contact)
        while self._gone:
            self._contacts.forget(self._gone.popleft().contact)

    # -- how members are called and reached

    def who(self, member_id: str, instance_id: str | None = None) -> Who:
        member = self.members.get(member_id)
        if member is not None:
            return member.who
        for gone in reversed(self._gone):
            if gone.contact.member_id == member_id and gone.change.who is not None:
                who = gone.change.who
                return Who(member_id, who.client, who.host, who.instance)
        return Who(member_id, instance=instance_id)

    def label(self, member_id: str) -> str:
        member = self.members.get(member_id)
        if member is not None:
            return member.who.label
        return self._labels.get(member_id) or Who(member_id).label

    def keep_label(self, who: Who, member_id: str) -> None:
        self._labels[member_id] = who.label

    def forget_labels(self) -> None:
        self._labels = {}

    def peer_of(self, member_id: str) -> str | None:
        contact = self._contacts.get(self._group_id, member_id)
        return None if contact is None else contact.peer

    # -- those who are gone

    def remember(self, contact: Contact, change: Change, entry: Entry | None) -> None:
        self._gone.append(_Gone(contact, change, entry))
        while len(self._gone) > _GONE:
            self._contacts.forget(self._gone.popleft().contact)

    def is_told_in(self, change: Change, entry: Entry) -> None:
        """Of one that was gone before there was an entry to tell it in."""
        for gone in self._gone:
            if gone.entry is None and gone.change is change:
                gone.entry = entry

    def look_again(self, contact: Contact) -> Entry | None:
        """Something was heard of it, or its connection has ended; gives the entry that changes by it."""
        for gone in self._gone:
            if gone.contact is contact:
                look(gone.change, contact)
                return gone.entry
        return None

    def was_removed(self, member_id: str) -> Entry | None:
        """It did not leave by itself; gives the entry that changes by it."""
        for gone in reversed(self._gone):
            if gone.contact.member_id == member_id and gone.change.what is What.LEFT:
                gone.change.what = What.REMOVED
                return gone.entry
        return None


def look(change: Change, contact: Contact) -> None:
    evidence = change.evidence
    if evidence is not None:
        evidence.peer, evidence.closed, evidence.end = contact.peer, contact.closed_ms, contact.end
        evidence.returned = contact.returned_ms
