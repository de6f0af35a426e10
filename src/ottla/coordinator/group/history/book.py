"""The entries of one group's history: how they are numbered, and which are to be written."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.coordinator.group.history.entries import Entry


@dataclass(slots=True)
class Book:
    next_number: int = 0
    to_write: dict[int, Entry] = field(default_factory=dict)
    """Entries that are new or have changed since somebody took them from here."""
    roll_has_changed: bool = False

    def number(self) -> int:
        number, self.next_number = self.next_number, self.next_number + 1
        self.roll_has_changed = True
        return number

    def write(self, entry: Entry) -> None:
        self.to_write[entry.number] = entry
