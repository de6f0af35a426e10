"""A history that is looked into: what is in it, and what of it has been explained already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ottla.coordinator.group.history.departures import Departure, Verdict, departures
from ottla.coordinator.group.history.entries import Change, Entry, Incident, Rebalance, What
from ottla.coordinator.group.history.finding import Finding, Kind
from ottla.coordinator.group.history.names import Names
from ottla.coordinator.group.history.words import clock, listed


class Case:
    """The history from a moment on, and what has been explained of it."""

    def __init__(self, entries: Sequence[Entry], since: int) -> None:
        self.entries = sorted(entries, key=lambda entry: entry.number)
        self.since = since
        self.names = Names(self.entries)
        self.rebalances = [entry for entry in self.entries if isinstance(entry, Rebalance)]
        self.incidents = [entry for entry in self.entries if isinstance(entry, Incident) and entry.last >= since]
        self.departures = departures(self.entries)
        self.explained: set[int] = set()  # ids of changes that belong to a finding already
        self.where = {id(change): entry.number for entry in self.rebalances for change in entry.changes}

    def recent(self) -> list[Rebalance]:
        return [entry for entry in self.rebalances if entry.at >= self.since]

    def of(self, *verdicts: Verdict) -> list[Departure]:
        """Departures in the time that is asked about, which no finding has explained yet."""
        return [
            each
            for each in self.departures
            if each.verdict in verdicts and each.change.at >= self.since and id(each.change) not in self.explained
        ]

    def name(self, change: Change) -> str:
        return self.names.of(change.who)

    def explain(self, changes: Iterable[Change | None]) -> list[int]:
        """Takes them as explained; gives the rebalances that they began."""
        there = [change for change in changes if change is not None]
        self.explained.update(map(id, there))
        numbers = {self.where[id(change)] for change in there if id(change) in self.where and self._began(change)}
        return sorted(numbers)

    def _began(self, change: Change) -> bool:
        number = self.where[id(change)]
        return any(entry.number == number and entry.changes[0] is change for entry in self.rebalances)

    def from_departures(
        self, kind: Kind, found: Sequence[Departure], summary: Callable[[str], str], advice: Sequence[str]
    ) -> list[Finding]:
        """One finding for all of a kind."""
        if not found:
            return []
        last = found[-1]
        names = list(dict.fromkeys(self.name(each.change) for each in found))
        numbers = self.explain(
            change for each in found for change in (each.change, each.returned, each.successor)
        )  # fmt: skip
        return [
            Finding(
                kind,
                summary(listed(names)),
                last.change.at,
                len(found),
                all(each.is_certain for each in found),
                names,
                _clues(last, of_many=len(found) > 1),
                list(advice),
                numbers,
            )
        ]

    def changes(self, what: What) -> list[Change]:
        changes = [change for entry in self.rebalances for change in entry.changes if change.what is what]
        changes += [incident.change for incident in self.incidents if incident.change.what is what]
        return sorted(changes, key=lambda change: change.at)


def _clues(departure: Departure, *, of_many: bool) -> list[str]:
    if not of_many or not departure.clues:
        return departure.clues
    first, *rest = departure.clues
    return [f"the last time, at {clock(departure.change.at)}: {first}", *rest]
