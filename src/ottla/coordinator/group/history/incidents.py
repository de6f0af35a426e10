"""What happens to a group and is no rebalance. One that happens again and again is counted."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from ottla.coordinator.group.events import Event
from ottla.coordinator.group.history.book import Book
from ottla.coordinator.group.history.entries import Change, Incident, What, named

_OPEN: Final = 8  # that are counted on, if they happen again


@dataclass(frozen=True, slots=True)
class CommitsStalled(Event):
    """Nothing was committed for a while, though there is something to read; `lag` says where.

    Told again and again, as long as it is so.
    """

    since_ms: int
    lag: tuple[str, ...]


class Incidents:
    def __init__(self, book: Book) -> None:
        self._book = book
        self._open: deque[Incident] = deque(maxlen=_OPEN)

    def note(self, change: Change) -> Incident:
        for known in self._open:
            if known.change.what is change.what and known.change.who == change.who:
                known.count, known.last = known.count + 1, change.at
                self._book.write(known)
                return known
        return self._new(change, change.at)

    def commits_stalled(self, event: CommitsStalled) -> None:
        lag = named(event.lag)
        for known in self._open:
            if known.change.what is What.COMMITS_STALLED and event.since_ms <= known.last:
                known.last, known.change.after = event.at_ms, lag
                self._book.write(known)
                return
        self._new(Change(event.since_ms, What.COMMITS_STALLED, after=lag), event.at_ms)

    def _new(self, change: Change, last: int) -> Incident:
        incident = Incident(self._book.number(), change.at, change, last=last)
        self._open.append(incident)
        self._book.write(incident)
        return incident
