"""What `ottla group why` says: first how the group is, then what is the matter, then what happened."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

import click

from ottla.cli.admin.group_history import GroupHistory
from ottla.cli.admin.group_lag import Progress
from ottla.cli.output import count, shown
from ottla.cli.times import iso
from ottla.coordinator.group.history.entries import Change, Entry, Incident, Outcome, Rebalance
from ottla.coordinator.group.history.finding import TROUBLE, Finding
from ottla.coordinator.group.history.findings import findings
from ottla.coordinator.group.history.names import Names
from ottla.coordinator.group.history.words import clock, happened, listed, seconds, times

_MOVES: Final = 3


class Report:
    def __init__(self, now: Progress, history: GroupHistory, since_ms: int, now_ms: int) -> None:
        self._group = now.group
        self._lag = now.lag
        self._history = history
        self._since_ms = since_ms
        self._now_ms = now_ms
        self._names = Names(history.entries)
        self._rebalances = [entry for entry in history.entries if isinstance(entry, Rebalance)]
        self._recent = [entry for entry in self._rebalances if entry.at >= since_ms]
        self.findings = findings(history.entries, since_ms)

    # -- for people

    def lines(self, last: int, width: int) -> Iterator[str]:
        yield from _wrapped(self._headline(), width, bold=True)
        yield from _wrapped(self._how_often(), width)
        for number, finding in enumerate(self.findings, 1):
            yield ""
            yield from self._told(number, finding, width)
        newest = self._history.entries[::-1][:last]
        if newest:
            yield ""
            yield click.style("What happened, the newest first", bold=True)
            for entry in newest:
                yield from _wrapped(self._entry(entry), width, first="  ", rest="            ")

    def _headline(self) -> str:
        group, members = self._group, count(len(self._group.members), "member")
        steady = self._steady_since()
        for_long = f", for {seconds(self._now_ms - steady)} now (since {clock(steady)})" if steady is not None else ""
        if not group.is_active:
            return f"Group {group.id} has no members{for_long}."
        lag = f", {self._lag} records behind" if self._lag else ""
        if group.state == "Stable":
            return f"Group {group.id} is stable with {members}{for_long}{lag}."
        return f"Group {group.id} is rebalancing ({group.state}) with {members}{lag}."

    def _steady_since(self) -> int | None:
        last = self._rebalances[-1] if self._rebalances else None
        return last.ended if last is not None and last.outcome in (Outcome.COMPLETED, Outcome.EMPTY) else None

    def _how_often(self) -> str:
        span = seconds(self._now_ms - self._since_ms)
        span = "hour" if span == "1 h" else span
        if not self._recent:
            if not self._rebalances:
                return "Nothing is remembered of it: since then it has had no members, or did not rebalance."
            return f"It did not rebalance in the last {span}; the last time was at {clock(self._rebalances[-1].at)}."
        waited = sum((entry.ended or entry.at) - entry.at for entry in self._recent)
        often = f"It rebalanced {times(len(self._recent))} in the last {span}, which took {seconds(waited)} in all"
        main = max(self.findings, key=lambda finding: len(finding.rebalances), default=None)
        if main is None or not main.rebalances or len(self._recent) == 1:
            return f"{often}."
        share = f"{len(main.rebalances)} of them" if len(main.rebalances) < len(self._recent) else "all of them"
        return f"{often}; {share} because {main.summary}."

    def _told(self, number: int, finding: Finding, width: int) -> Iterator[str]:
        colour = "yellow" if finding.kind in TROUBLE else None
        yield from _wrapped(f"{finding.summary}.", width, first=f"{number}. ", rest="   ", colour=colour, bold=True)
        for clue in finding.evidence:
            yield from _wrapped(clue, width, first="   - ", rest="     ")
        for advice in finding.advice:
            yield from _wrapped(advice, width, first="   → ", rest="     ")

    def _entry(self, entry: Entry) -> str:
        if isinstance(entry, Incident):
            often = f", {times(entry.count)}" if entry.count > 1 else ""
            return f"{clock(entry.at)}  {self._happened(entry.change)}{often}"
        causes = [self._happened(change) for change in entry.changes[:3]]
        further = len(entry.changes) - len(causes) + sum(entry.further.values())
        told = "; ".join([*causes, *([f"{further} more"] if further else [])]) or "not known why"
        kind = "generation" if entry.protocol == "classic" else "epoch"
        return f"{clock(entry.at)}  {told} → {kind} {entry.generation}, {self._became(entry)}"

    def _happened(self, change: Change) -> str:
        return happened(change, self._names.of(change.who))

    def _became(self, entry: Rebalance) -> str:
        if entry.outcome is Outcome.UNDER_WAY:
            ended = entry is self._rebalances[-1] and self._group.state != "Stable"
            return "under way" if ended else "whose end is not known"
        took = seconds((entry.ended or entry.at) - entry.at)
        if entry.outcome is Outcome.EMPTY:
            return "nobody is left"
        if entry.outcome is Outcome.SUPERSEDED:
            return f"overtaken by the next after {took}"
        return f"{count(entry.members, 'member')}, in {took}, {self._moved(entry)}"

    def _moved(self, entry: Rebalance) -> str:
        if not entry.moved:
            return "nothing moved"
        by_way: dict[tuple[str, str | None, str | None], list[str]] = {}
        for move in entry.moves:
            by_way.setdefault((move.topic, move.source, move.target), []).append(str(move.partition))
        ways = [
            f"{topic} {listed(numbers)} {self._way(source, target)}"
            for (topic, source, target), numbers in list(by_way.items())[:_MOVES]
        ]
        return f"{entry.moved} of {entry.partitions} partitions moved: {'; '.join(ways)}"

    def _way(self, source: str | None, target: str | None) -> str:
        told = [f"from {self._names.short(source)}"] if source is not None else []
        return " ".join([*told, f"to {self._names.short(target)}" if target is not None else "to nobody"])

    # -- for programs

    def as_value(self, last: int) -> dict[str, Any]:
        steady = self._steady_since()
        return {
            "group": self._group.id,
            "state": self._group.state,
            "type": self._group.type,
            "members": len(self._group.members),
            "lag": self._lag,
            "steady_since": None if steady is None else iso(steady),
            "since": iso(self._since_ms),
            "rebalances": len(self._recent),
            "findings": [
                {
                    "kind": finding.kind.value,
                    "certain": finding.is_certain,
                    "trouble": finding.kind in TROUBLE,
                    "count": finding.count,
                    "rebalances": len(finding.rebalances),
                    "last": iso(finding.last),
                    "members": finding.members,
                    "summary": finding.summary,
                    "evidence": finding.evidence,
                    "advice": finding.advice,
                }
                for finding in self.findings
            ],
            "history": [_value(entry) for entry in self._history.entries[::-1][:last]],
        }


def _value(entry: Entry) -> dict[str, Any]:
    """As it is stored, with times for people."""
    import json

    from ottla.coordinator.group.history.coding import encode

    told = json.loads(encode(entry))
    return {name: _with_times({name: each})[name] for name, each in told.items() if name != "v"}


_TIMES: Final = frozenset({"at", "ended", "last", "joined", "heard", "committed", "closed", "returned", "taken_over"})


def _with_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: iso(each) if name in _TIMES and isinstance(each, int) else _with_times(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_with_times(each) for each in value]
    return value


def _wrapped(
    text: str, width: int, *, first: str = "", rest: str = "", bold: bool = False, colour: str | None = None
) -> Iterator[str]:
    # What clients call themselves and say is in it: made harmless here, before any of it is styled.
    for line in textwrap.wrap(shown(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
        yield click.style(line, bold=bold, fg=colour) if bold or colour else line
