"""How members are reached: by which connection, when they were last heard, and how that connection ended.

Every heartbeat and commit comes by here, so that it costs a look into one dictionary. The state machines of groups know
nothing of connections; the API files tell them here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.coordinator.group.history.entries import End


class Connection(Protocol):
    """What is asked of one: who is at the other end."""

    @property
    def peer(self) -> str: ...


class Contact:
    """Of one member, also for a while after it was one."""

    __slots__ = (
        "closed_ms", "committed_ms", "connection", "end", "gone_ms", "group_id", "heard_ms", "member_id", "peer",
        "returned_ms",
    )  # fmt: skip

    def __init__(self, group_id: str, member_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.heard_ms = now_ms
        self.committed_ms: int | None = None
        self.connection: Connection | None = None
        self.peer: str | None = None
        self.closed_ms: int | None = None
        self.end: End | None = None
        self.gone_ms: int | None = None
        """Since when it is no member any more."""
        self.returned_ms: int | None = None


class Contacts:
    def __init__(self, now_ms: Callable[[], int], changed: Callable[[Contact], None]) -> None:
        """`changed` is told of what happens to one that is no member any more."""
        self._now_ms = now_ms
        self._changed = changed
        self._all: dict[tuple[str, str], Contact] = {}
        self._by_connection: dict[Connection, dict[Contact, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, group_id: str, member_id: str) -> Contact:
        contact = self._all.get((group_id, member_id))
        if contact is None:
            contact = self._all[group_id, member_id] = Contact(group_id, member_id, self._now_ms())
        return contact

    def renew(self, group_id: str, member_id: str) -> Contact:
        """One who is a member again under the id that it had before is at the same end of the same line."""
        former = self._all.get((group_id, member_id))
        if former is None or former.gone_ms is None:
            return self.add(group_id, member_id)
        contact = self._all[group_id, member_id] = Contact(group_id, member_id, self._now_ms())
        if former.connection is not None:
            self._attach(contact, former.connection)
        return contact

    def gone(self, group_id: str, member_id: str, at_ms: int) -> Contact:
        """It is no member any more: what it says from now on, it says as a stranger."""
        contact = self.add(group_id, member_id)
        if contact.gone_ms is None:
            contact.gone_ms = at_ms
        return contact

    def get(self, group_id: str, member_id: str) -> Contact | None:
        return self._all.get((group_id, member_id))

    def forget(self, contact: Contact) -> None:
        if self._all.get((contact.group_id, contact.member_id)) is contact:
            del self._all[contact.group_id, contact.member_id]
        self._detach(contact)

    # -- what API files tell

    def heard(self, group_id: str, member_id: str, connection: Connection) -> Contact | None:
        """A request of a member has come; of strangers nothing is remembered."""
        contact = self._all.get((group_id, member_id))
        if contact is None:
            return None
        if contact.gone_ms is not None:
            if contact.returned_ms is None:
                contact.returned_ms = self._now_ms()
                self._changed(contact)
            return None
        contact.heard_ms = self._now_ms()
        if contact.connection is not connection:
            self._attach(contact, connection)
        return contact

    def committed(self, group_id: str, member_id: str, connection: Connection) -> None:
        contact = self.heard(group_id, member_id, connection)
        if contact is not None:
            contact.committed_ms = contact.heard_ms

    def lost(self, connection: Connection, end: End) -> None:
        """All who were heard by this connection are heard by it no more."""
        now_ms = self._now_ms()
        for contact in self._by_connection.pop(connection, ()):
            contact.connection, contact.closed_ms, contact.end = None, now_ms, end
            if contact.gone_ms is not None:
                self._changed(contact)

    def _attach(self, contact: Contact, connection: Connection) -> None:
        self._detach(contact)
        contact.connection, contact.peer = connection, connection.peer
        contact.closed_ms = contact.end = None
        self._by_connection.setdefault(connection, {})[contact] = None

    def _detach(self, contact: Contact) -> None:
        connection = contact.connection
        if connection is None:
            return
        contact.connection = None
        others = self._by_connection.get(connection)
        if others is not None:
            others.pop(contact, None)
            if not others:
                del self._by_connection[connection]
