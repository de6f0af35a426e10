"""How members are called, so that two are never taken for one and no more is said than needed."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.coordinator.group.history.entries import DEPARTURES, Change, Entry, Incident, What, Who


class Names:
    """By the instance or client id; the end of the member id is added where two had the same at the same time."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        changes = [
            change
            for entry in entries
            for change in ([entry.change] if isinstance(entry, Incident) else entry.changes)
            if change.who is not None
        ]
        self._ambiguous = _shared(sorted(changes, key=lambda change: change.at))

    def of(self, who: Who | None) -> str:
        return self.short(who.label) if who is not None else "a member"

    def short(self, label: str) -> str:
        name, _, number = label.rpartition("#")
        return f"{name} (…{number})" if name in self._ambiguous else name


def _shared(changes: Sequence[Change]) -> set[str]:
    there: dict[str, set[str]] = {}
    shared: set[str] = set()
    for change in changes:
        assert change.who is not None
        name, who = change.who.label.rpartition("#")[0], change.who.id
        present = there.setdefault(name, set())
        if change.what is What.JOINED:
            present.add(who)
            if len(present) > 1:
                shared.add(name)
        elif change.what in DEPARTURES:
            present.discard(who)
    return shared
