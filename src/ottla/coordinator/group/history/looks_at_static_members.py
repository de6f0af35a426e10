"""Findings about static members: restarts, absences, and two that use the same instance id."""

from __future__ import annotations

from ottla.coordinator.group.history.case import Case
from ottla.coordinator.group.history.departures import Verdict
from ottla.coordinator.group.history.entries import Change, What
from ottla.coordinator.group.history.finding import Finding, Kind
from ottla.coordinator.group.history.words import clock, listed, seconds, times


def static_members(case: Case) -> list[Finding]:
    too_late = case.of(Verdict.STATIC_TOO_LATE)
    longest = max((each.evidence.session_ms for each in too_late), default=0)
    found = case.from_departures(
        Kind.STATIC_TOO_LATE,
        too_late,
        lambda who: (
            f"static member {who} was away for longer than its session timeout of {seconds(longest)}, "
            "so its partitions were given to others"
        ),
        (
            "set session.timeout.ms above the time that a restart takes, or start it again sooner",
            "if it is not to come back, remove it: `kafka-consumer-groups.sh` cannot, AdminClient's "
            "removeMembersFromConsumerGroup can",
        ),
    )
    fenced = {
        incident.change.who.instance
        for incident in case.incidents
        if incident.change.what is What.FENCED and incident.change.who is not None and incident.change.who.instance
    }
    replaced = [change for change in case.changes(What.STATIC_REPLACED) if change.at >= case.since]
    for instance in sorted(name for name in fenced if name is not None):
        fights = [change for change in replaced if change.who is not None and change.who.instance == instance]
        refusals = [
            incident
            for incident in case.incidents
            if incident.change.what is What.FENCED
            and incident.change.who is not None
            and incident.change.who.instance == instance
        ]
        found.append(
            Finding(
                Kind.DUPLICATE_INSTANCE,
                f"two processes use the same group.instance.id, {instance}: each throws the other out",
                max(incident.last for incident in refusals),
                max(len(fights), 1),
                True,
                [instance],
                [
                    *(f"at {clock(change.at)} another process took its place" for change in fights[-1:]),
                    f"the former one went on asking, and was refused {times(sum(each.count for each in refusals))} "
                    "(FENCED_INSTANCE_ID)",
                ],
                [
                    "give each process a group.instance.id of its own, such as the name of its host or pod",
                    "or see whether an old process was left running",
                ],
                case.explain(fights),
            )
        )
    restarts = [change for change in replaced if id(change) not in case.explained]
    if restarts:
        names = list(dict.fromkeys(case.name(change) for change in restarts))
        moving = [change for change in restarts if change.rebalances]
        found.append(
            Finding(
                Kind.STATIC_RESTART,
                f"static {'member' if len(names) == 1 else 'members'} {listed(names)} came back after a restart"
                + (", which made the group rebalance" if moving else " and kept their partitions: no rebalance"),
                restarts[-1].at,
                len(restarts),
                True,
                names,
                [_restart_clue(change) for change in restarts[-1:]],
                [],
                case.explain(restarts),
            )
        )
    return found


def _restart_clue(change: Change) -> str:
    seen = change.evidence
    if seen is not None and seen.closed is not None:
        return (
            f"its former connection ended at {clock(seen.closed)}; {seconds(change.at - seen.closed)} later it was "
            f"back under the same group.instance.id"
        )
    return f"it was back at {clock(change.at)} under the same group.instance.id"
