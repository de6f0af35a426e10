"""Findings about members that came: after a deployment, as more, or as the first."""

from __future__ import annotations

from typing import Final

from ottla.coordinator.group.history.case import Case
from ottla.coordinator.group.history.departures import Verdict
from ottla.coordinator.group.history.entries import DEPARTURES, What
from ottla.coordinator.group.history.finding import Finding, Kind
from ottla.coordinator.group.history.words import clock, listed, seconds

TOGETHER_MS: Final = 15 * 60_000
"""What happens within this time may be one undertaking: a deployment."""
FOUNDING_MS: Final = 10_000
"""How soon one after the other the first members of a group come."""


def rolling_restart(case: Case) -> list[Finding]:
    """Several, one after the other, each followed by one like it."""
    pairs = [each for each in case.of(Verdict.CLOSED, Verdict.LEFT) if each.successor is not None]
    heirs = {each.successor.who.id for each in pairs if each.successor is not None and each.successor.who is not None}
    pairs = [each for each in pairs if each.change.who is not None and each.change.who.id not in heirs]
    if len(pairs) < 2 or pairs[-1].change.at - pairs[0].change.at > TOGETHER_MS * len(pairs):
        return []
    downtime = max(each.successor.at - each.change.at for each in pairs if each.successor is not None)
    found = case.from_departures(
        Kind.ROLLING_RESTART,
        pairs,
        lambda who: (
            f"{who} were restarted one after the other, as in a rolling deployment, and each restart made the "
            "group rebalance twice"
        ),
        (
            "give each process a group.instance.id of its own (static membership): one that is back within its session "
            "timeout keeps its partitions, and the group does not rebalance at all",
            f"session.timeout.ms must then be longer than a restart, which took up to {seconds(downtime)}",
        ),
    )
    found[0].evidence = [
        f"{case.name(each.change)} was closed at {clock(each.change.at)}, and one like it joined "
        f"{seconds(each.successor.at - each.change.at)} later"
        for each in pairs[-3:]
        if each.successor is not None
    ]
    return found


def joins(case: Case) -> list[Finding]:
    """Those that nobody's going explains."""
    joined = [change for change in case.changes(What.JOINED) if change.at >= case.since]
    # One that comes back after a departure from before the time that is asked about is not new either.
    known = {
        id(change) for each in case.departures for change in (each.returned, each.successor) if change is not None
    }  # fmt: skip
    new = [change for change in joined if id(change) not in known | case.explained]
    founding = _founding(case)
    founders = [change for change in new if id(change) in founding]
    grown = [change for change in new if id(change) not in founding]
    found: list[Finding] = []
    if grown:
        names = list(dict.fromkeys(case.name(change) for change in grown))
        found.append(
            Finding(
                Kind.SCALED_UP,
                f"{listed(names)} joined, and nobody had left before: the group was made larger",
                grown[-1].at,
                len(grown),
                True,
                names,
                [f"{case.name(change)} joined at {clock(change.at)}" for change in grown[-3:]],
                [],
                case.explain(grown),
            )
        )
    if founders:
        names = list(dict.fromkeys(case.name(change) for change in founders))
        more = sum(entry.further.get(What.JOINED.value, 0) for entry in case.recent())
        found.append(
            Finding(
                Kind.STARTED,
                f"the group came to life with {len(founders) + more} "
                f"{'member' if len(founders) + more == 1 else 'members'}: {listed(names)}",
                founders[-1].at,
                len(founders) + more,
                True,
                names,
                [],
                [],
                case.explain(founders),
            )
        )
    return found


def _founding(case: Case) -> set[int]:
    """Joins that belong to the start of the group: one soon after the other, before anybody was gone."""
    found: set[int] = set()
    latest = None
    for entry in case.rebalances:
        if entry.is_first:
            latest = entry.at
        for change in entry.changes:
            if change.what in DEPARTURES:
                latest = None
            elif change.what is What.JOINED and latest is not None and change.at - latest <= FOUNDING_MS:
                found.add(id(change))
                latest = change.at
    return found
