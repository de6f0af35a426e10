"""Findings about topics, settings, slowness, refusals, and members without work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.coordinator.group.history.case import Case
from ottla.coordinator.group.history.entries import CLASSIC, CONSUMER, Change, Outcome, Rebalance, Slow, What
from ottla.coordinator.group.history.finding import Finding, Kind
from ottla.coordinator.group.history.words import clock, listed, seconds

SLOW_REJOIN_MS: Final = 5000
SLOW_LEADER_MS: Final = 5000


def changes_of_topics_and_settings(case: Case) -> list[Finding]:
    found: list[Finding] = []
    for kind, whats, summary, advice in _PLAIN_CHANGES:
        changes = [change for what in whats for change in case.changes(what) if change.at >= case.since]
        if changes:
            names = list(dict.fromkeys(case.name(change) for change in changes if change.who is not None))
            found.append(
                Finding(
                    kind, summary(changes[-1], listed(names)), changes[-1].at, len(changes), True, names,
                    [f"its client says: {changes[-1].reason}"] if changes[-1].reason else [], list(advice),
                    case.explain(changes),
                )
            )  # fmt: skip
    return found


_PLAIN_CHANGES: Final[Sequence[tuple[Kind, Sequence[What], Callable[[Change, str], str], Sequence[str]]]] = (
    (
        Kind.SUBSCRIPTION_CHANGED,
        (What.SUBSCRIPTION_CHANGED,),
        lambda change, who: (
            f"{who} changed its topics from {listed(change.before) or 'none'} to {listed(change.after) or 'none'}"
        ),
        (),
    ),
    (
        Kind.PARTITIONS_CHANGED,
        (What.PARTITIONS_CHANGED,),
        lambda change, who: f"the topics changed: {listed(change.before)} partitions became {listed(change.after)}",
        (),
    ),
    (
        Kind.ASKED_BY_LEADER,
        (What.LEADER_REJOINED, What.REJOINED),
        lambda change, who: f"{who or 'a member'} asked for a rebalance by joining again",
        (),
    ),
    (
        Kind.SETTINGS_CHANGED,
        (What.ASSIGNOR_CHANGED, What.PROTOCOL_CHANGED),
        lambda change, who: "the group moved to another assignor or protocol",
        (),
    ),
    (
        Kind.OVER_CAPACITY,
        (What.OVER_CAPACITY,),
        lambda change, who: "the group has more members than group.max.size allows",
        ("raise group.max.size on the brokers, or start fewer members",),
    ),
    (
        Kind.NOT_STORED,
        (What.NOT_STORED,),
        lambda change, who: "the coordinator could not store the assignment, so the members had to join again",
        ("look at the broker's log: its disk, or too few replicas in sync",),
    ),
)


_WAITED_FOR: Final = (
    (
        CLASSIC,
        "joined again",
        "a member hears of a rebalance with its next heartbeat, and joins again with its next poll(): do less between "
        "two polls, or use a cooperative assignor or the consumer protocol, with which the others go on meanwhile",
    ),
    (
        CONSUMER,
        "gave up what it had to",
        "a member hears with its next heartbeat what it has to give up, and does so with its next poll(): do less "
        "between two polls, and in its rebalance callback",
    ),
)


def _kept_waiting(case: Case, slow: list[tuple[Slow, Rebalance]], until: str, advice: str) -> list[Finding]:
    if not slow:
        return []
    worst, entry = max(slow, key=lambda pair: pair[0].after_ms)
    waited = seconds(entry.join_ms or worst.after_ms)
    names = list(dict.fromkeys(case.names.short(each.label) for each, _ in slow))
    return [
        Finding(
            Kind.SLOW_REJOIN,
            f"{listed(names)} kept the others waiting: up to {seconds(worst.after_ms)} until it {until}",
            slow[-1][1].at,
            len({entry.number for _, entry in slow}),
            True,
            names,
            [
                f"in the rebalance of {clock(entry.at)} the group waited {waited} for members, "
                f"{case.names.short(worst.label)} came last"
            ],
            [advice],
        )
    ]


def slowness(case: Case) -> list[Finding]:
    found: list[Finding] = []
    slow = [
        (each, entry)
        for entry in case.recent()
        for each in entry.slow
        if each.after_ms - entry.stood_still_ms >= SLOW_REJOIN_MS and entry.outcome is Outcome.COMPLETED
    ]
    for protocol, until, advice in _WAITED_FOR:
        found += _kept_waiting(case, [pair for pair in slow if pair[1].protocol == protocol], until, advice)
    leaders = [
        entry
        for entry in case.recent()
        if (entry.assign_ms or 0) - entry.stood_still_ms >= SLOW_LEADER_MS and entry.leader
    ]
    if leaders:
        worst_of = max(leaders, key=lambda entry: entry.assign_ms or 0)
        names = list(dict.fromkeys(case.names.short(entry.leader or "") for entry in leaders))
        found.append(
            Finding(
                Kind.SLOW_LEADER,
                f"the leader, {listed(names)}, took up to {seconds(worst_of.assign_ms or 0)} to assign the partitions",
                leaders[-1].at,
                len(leaders),
                True,
                names,
                [f"in the rebalance of {clock(worst_of.at)} all others waited for it"],
                [
                    "look at what its process does meanwhile; large groups with many topics do better with the "
                    "consumer protocol, where the broker assigns",
                ],
            )
        )
    return found


def refusals(case: Case) -> list[Finding]:
    refused = [incident for incident in case.incidents if incident.change.what is What.REFUSED]
    found: list[Finding] = []
    for incident in refused[-1:]:
        full = incident.change.reason == "group_max_size_reached"
        found.append(
            Finding(
                Kind.REFUSED,
                f"{case.name(incident.change)} was not let in: "
                + ("the group is full" if full else "it has no assignor in common with the others"),
                incident.last,
                sum(each.count for each in refused),
                True,
                [case.name(incident.change)],
                [f"it was told {(incident.change.reason or '').upper()}"],
                [
                    "raise group.max.size on the brokers, or start fewer members"
                    if full
                    else "give all members the same partition.assignment.strategy; to change it, first add the new one "
                    "beside the old everywhere, then take the old away",
                ],
            )
        )
    return found


def stalls(case: Case) -> list[Finding]:
    stalled = [incident for incident in case.incidents if incident.change.what is What.COMMITS_STALLED]
    return [
        Finding(
            Kind.COMMITS_STALLED,
            f"nothing was committed for {seconds(incident.last - incident.at)} in some partitions, though there is "
            "something to read",
            incident.last,
            len(stalled),
            True,
            [],
            [
                f"since {clock(incident.at)}, and so it still was at {clock(incident.last)}; behind: "
                f"{listed(incident.change.after)}",
                "the group has members, and they are heard: their processes are alive",
            ],
            [
                "look at the log of the member that has the partition (`ottla group describe` says which): it may be "
                "stuck on one record, wait for something else, or commit too seldom",
            ],
        )
        for incident in stalled[-1:]
    ]


def idle(case: Case) -> list[Finding]:
    last = next((entry for entry in reversed(case.rebalances) if entry.outcome is Outcome.COMPLETED), None)
    if last is None or last is not case.rebalances[-1] or not last.idle_count:
        return []
    names = [case.names.short(label) for label in last.idle]
    too_many = last.members > last.partitions > 0
    return [
        Finding(
            Kind.IDLE_MEMBERS,
            f"{last.idle_count} of {last.members} members {'has' if last.idle_count == 1 else 'have'} no partition"
            + (f": there are more members than partitions ({last.partitions})" if too_many else ""),
            last.at,
            last.idle_count,
            True,
            names,
            [f"without a partition: {listed(names)}"],
            [
                "more members than partitions only stand by: start fewer, or give the topic more partitions"
                if too_many
                else "look at what they subscribe to: `ottla group members -v` shows it"
            ],
        )
    ]
