"""The histories of all groups that are coordinated here.

What happens is only noted at once; it is thought about a little later, in pieces, so that nobody who commits or sends a
heartbeat has to wait for it. Each piece of thought gives entries to write.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final, NamedTuple

from ottla.coordinator.group.events import (
    Event,
    GroupDeleted,
    GroupLoaded,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    RevocationMissed,
    StaticMemberReplaced,
)
from ottla.coordinator.group.history.chronicle import Chronicle, RemovedByAnother
from ottla.coordinator.group.history.coding import Unreadable, all_keys, decode, encode, entry_key, roll_key
from ottla.coordinator.group.history.contacts import Connection, Contact, Contacts
from ottla.coordinator.group.history.entries import End, Rebalance, Roll
from ottla.coordinator.group.history.rebalances import Topics
from ottla.coordinator.group.history.standstills import Standstills
from ottla.coordinator.machine import StoredRecord

_NOTED: Final = 100_000  # events that nobody has thought about yet: the oldest are forgotten if there are more


class _Noted(NamedTuple):
    event: Event
    contact: Contact | None
    """Of the member that it is about, as it was then."""


class Readiness(Enum):
    """Whether the history of a group can be gone on with."""

    LOADING = auto()  # what was before is not known yet
    NOT_WRITABLE = auto()
    WRITABLE = auto()
    ELSEWHERE = auto()  # it is not coordinated here any more


class Historian:
    def __init__(
        self, now_ms: Callable[[], int], topics: Topics, on_end: Callable[[str, Rebalance], None] = lambda *_: None
    ) -> None:
        self._now_ms = now_ms
        self._topics = topics
        self._on_end = on_end
        self._noted: deque[_Noted] = deque(maxlen=_NOTED)
        self._contacts = Contacts(now_ms, self._contact_changed)
        self._standstills = Standstills(now_ms)
        self._chronicles: dict[str, Chronicle] = {}
        self._rolls: dict[str, bytes] = {}  # from the log, of groups that nothing has been heard of since
        self._to_write: dict[str, None] = {}

    # -- what happens

    def note(self, event: Event) -> None:
        """What is known of a member is taken down now: a moment later it may be there again, under the same id."""
        contact = None
        if isinstance(event, MemberJoined | StaticMemberReplaced):
            contact = self._contacts.renew(event.group_id, event.member_id)
        elif isinstance(event, MemberLeft | MemberExpired | RevocationMissed):
            if event.group_id in self._rolls:
                self._of(event.group_id)
            contact = self._contacts.gone(event.group_id, event.member_id, event.at_ms)
        self._noted.append(_Noted(event, contact))

    def heard(self, group_id: str, member_id: str, connection: Connection) -> Contact | None:
        contact = self._contacts.heard(group_id, member_id, connection)
        if contact is None and group_id in self._rolls:  # the first of its group since this coordinator took over
            self._of(group_id)
            contact = self._contacts.heard(group_id, member_id, connection)
        return contact

    def committed(self, group_id: str, member_id: str, connection: Connection) -> None:
        contact = self.heard(group_id, member_id, connection)
        if contact is not None:
            contact.committed_ms = contact.heard_ms

    def left(self, group_id: str, member_id: str, connection: Connection) -> None:
        """Somebody said that this member leaves: perhaps it was not itself."""
        contact = self._contacts.get(group_id, member_id)
        if contact is not None and contact.connection is not None and contact.connection is not connection:
            self._noted.append(_Noted(RemovedByAnother(self._now_ms(), group_id, -1, member_id), contact))

    def lost(self, connection: Connection, end: End) -> None:
        self._contacts.lost(connection, end)

    def stood_still(self, lasted_ms: int) -> None:
        """This node itself, until now: nobody is to blame for having been silent meanwhile."""
        self._standstills.note(lasted_ms)

    def _contact_changed(self, contact: Contact) -> None:
        chronicle = self._chronicles.get(contact.group_id)
        if chronicle is not None:
            chronicle.contact_changed(contact)
            self._to_write[contact.group_id] = None

    # -- thinking about it

    @property
    def has_work(self) -> bool:
        return bool(self._noted or self._to_write)

    @property
    def waiting(self) -> set[str]:
        """The groups that there is work for."""
        return {*(event.group_id for event, _ in self._noted), *self._to_write}

    def think(
        self, readiness: Callable[[str], Readiness] = lambda group_id: Readiness.WRITABLE
    ) -> Iterator[tuple[str, list[StoredRecord]]]:
        """Piece by piece, groups with what is to be written of them; what cannot be done yet is kept for later."""
        noted, self._noted = self._noted, deque(maxlen=_NOTED)
        held: list[_Noted] = []
        while noted:
            event, contact = piece = noted.popleft()
            group_id = event.group_id
            ready = readiness(group_id)
            if ready is Readiness.LOADING:
                held.append(piece)
            elif ready is Readiness.ELSEWHERE:
                self.forget(group_id)
            elif isinstance(event, GroupDeleted):
                yield group_id, self._deleted(group_id)
            elif not isinstance(event, GroupLoaded) or self._is_known(group_id):
                # of one that was only loaded nothing was remembered, and nothing has happened yet
                self._of(group_id).take(event, contact)
                self._to_write[group_id] = None
                yield group_id, []
        self._noted.extendleft(reversed(held))
        for group_id in list(self._to_write):
            ready = readiness(group_id)
            if ready is Readiness.ELSEWHERE:
                self.forget(group_id)
            elif group_id in self._to_write and ready is Readiness.WRITABLE:
                del self._to_write[group_id]
                yield group_id, self._records(group_id)

    def _is_known(self, group_id: str) -> bool:
        return group_id in self._chronicles or group_id in self._rolls

    def _of(self, group_id: str) -> Chronicle:
        chronicle = self._chronicles.get(group_id)
        if chronicle is None:
            chronicle = Chronicle(group_id, self._contacts, self._topics, self._standstills, self._on_end)
            self._chronicles[group_id] = chronicle
            roll = self._rolls.pop(group_id, None)
            if roll is not None:
                chronicle.restore(_roll(roll), self._now_ms())
        return chronicle

    def _records(self, group_id: str) -> list[StoredRecord]:
        chronicle = self._chronicles.get(group_id)
        if chronicle is None:
            return []
        book = chronicle.book
        records = [StoredRecord(entry_key(group_id, number), encode(entry)) for number, entry in book.to_write.items()]
        book.to_write.clear()
        if book.roll_has_changed:
            book.roll_has_changed = False
            records.append(StoredRecord(roll_key(group_id), encode(chronicle.roll(self._now_ms()))))
        return records

    def _deleted(self, group_id: str) -> list[StoredRecord]:
        if not self._is_known(group_id):
            return []
        chronicle = self._of(group_id)
        self.forget(group_id)
        return [StoredRecord(key, None) for key in all_keys(group_id, chronicle.book.next_number)]

    # -- coordinators come and go

    def remember(self, group_id: str, roll: bytes | None) -> None:
        """From the log, when a coordinator takes over."""
        if roll is not None:
            self._rolls[group_id] = roll
        else:
            self._rolls.pop(group_id, None)

    def forget(self, group_id: str) -> None:
        """It is coordinated elsewhere, or no more."""
        self._rolls.pop(group_id, None)
        self._to_write.pop(group_id, None)
        chronicle = self._chronicles.pop(group_id, None)
        if chronicle is not None:
            chronicle.forget()

    @property
    def groups(self) -> list[str]:
        return [*self._chronicles, *self._rolls]


def _roll(value: bytes) -> Roll:
    try:
        roll = decode(value)
    except Unreadable:
        return Roll(0, 0)
    return roll if isinstance(roll, Roll) else Roll(0, 0)
