"""What is the matter with a group: causes that belong together, each with its evidence and what to do about it.

A departure and the return that follows it are one matter, not two. What is blamed on somebody must be seen of him: one
who only joined again because others made the group rebalance is never named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ottla.coordinator.group.history.departures import Departure, Verdict, departures
from ottla.coordinator.group.history.entries import DEPARTURES, Change, Entry, Incident, Outcome, Rebalance, What
from ottla.coordinator.group.history.names import Names
from ottla.coordinator.group.history.words import clock, listed, seconds, times

TOGETHER_MS: Final = 15 * 60_000
"""What happens within this time may be one undertaking: a deployment, a change of size."""
FOUNDING_MS: Final = 5000
SLOW_REJOIN_MS: Final = 5000
SLOW_LEADER_MS: Final = 5000
CRASH_LOOP: Final = 3


class Kind(Enum):
    """What a finding is about. The values are what `--output json` shows."""

    POLL_INTERVAL = "poll-interval"
    SESSION_TOO_SHORT = "session-too-short"
    PAUSED = "paused"
    DIED = "died"
    CRASH_LOOP = "crash-loop"
    STATIC_TOO_LATE = "static-too-late"
    DUPLICATE_INSTANCE = "duplicate-instance-id"
    ROLLING_RESTART = "rolling-restart"
    COMMITS_STALLED = "commits-stalled"
    SLOW_REJOIN = "slow-rejoin"
    SLOW_LEADER = "slow-leader"
    REFUSED = "refused"
    UNHEARD = "unheard"
    REMOVED = "removed"
    UNSUBSCRIBED = "unsubscribed"
    LEFT = "left"
    SCALED_DOWN = "scaled-down"
    RESTARTED = "restarted"
    CLOSED = "closed"
    SCALED_UP = "scaled-up"
    STARTED = "started"
    STATIC_RESTART = "static-restart"
    SUBSCRIPTION_CHANGED = "subscription-changed"
    PARTITIONS_CHANGED = "partitions-changed"
    ASKED_BY_LEADER = "asked-by-leader"
    SETTINGS_CHANGED = "settings-changed"
    OVER_CAPACITY = "over-capacity"
    NOT_STORED = "not-stored"
    IDLE_MEMBERS = "idle-members"


TROUBLE: Final = frozenset(
    {
        Kind.POLL_INTERVAL, Kind.SESSION_TOO_SHORT, Kind.PAUSED, Kind.DIED, Kind.CRASH_LOOP, Kind.STATIC_TOO_LATE,
        Kind.DUPLICATE_INSTANCE, Kind.COMMITS_STALLED, Kind.SLOW_REJOIN, Kind.SLOW_LEADER, Kind.REFUSED, Kind.UNHEARD,
        Kind.OVER_CAPACITY, Kind.NOT_STORED,
    }
)  # fmt: skip
"""What somebody should look into; the rest is what groups do."""


@dataclass(slots=True)
class Finding:
    kind: Kind
    summary: str
    last: int
    count: int = 1
    """How often."""
    is_certain: bool = True
    members: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    rebalances: list[int] = field(default_factory=list)
    """Numbers of the entries that it explains."""


class _Case:
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
                [*([f"the last time, at {clock(last.change.at)}:"] if len(found) > 1 else []), *last.clues],
                list(advice),
                numbers,
            )
        ]


def findings(entries: Sequence[Entry], since: int) -> list[Finding]:
    """What explains the history from a moment on; what needs somebody's care first, then by how often it was."""
    case = _Case(entries, since)
    found = [finding for look in _LOOKS for finding in look(case)]
    return sorted(found, key=lambda finding: (finding.kind not in TROUBLE, -len(finding.rebalances), -finding.last))


# -- each of the following looks for one thing; the order matters, as what is explained is not explained again


def _poll_interval(case: _Case) -> list[Finding]:
    found = case.of(Verdict.POLL_INTERVAL)
    again = f", {times(len(found))}" if len(found) > 1 else ""
    certainly = all(each.is_certain for each in found)
    limits = sorted({each.evidence.poll_ms for each in found if each.evidence.poll_ms})
    limit = f" ({' to '.join(seconds(ms) for ms in dict.fromkeys((limits[0], limits[-1])))})" if limits else ""
    return case.from_departures(
        Kind.POLL_INTERVAL,
        found,
        lambda who: f"{who} {'took' if certainly else 'probably took'} longer than max.poll.interval.ms{limit} "
        f"between two calls of poll(){again}",
        (
            "let it do less between two calls of poll(): smaller batches (max.poll.records), or slow work in a thread "
            "of its own while the partitions are paused",
            "or raise max.poll.interval.ms above the longest time that a batch can take",
            *(["it happens again and again, so each round of work is too long, not one odd record"]
              if len(found) > 1 else []),
        ),
    )  # fmt: skip


def _pauses(case: _Case) -> list[Finding]:
    found = case.of(Verdict.PAUSED)
    back = [each for each in found if each.pause_ms is not None]
    if len(back) >= 2:
        longest = max(each.pause_ms or 0 for each in back)
        session = max(each.evidence.session_ms for each in back)
        return [
            *case.from_departures(
                Kind.SESSION_TOO_SHORT,
                back,
                lambda who: (
                    f"{who} paused for longer than the session timeout of {seconds(session)}, "
                    f"{times(len(back))}, and came back each time"
                ),
                (
                    f"set session.timeout.ms above the pauses: the longest was {seconds(longest)} "
                    "(and heartbeat.interval.ms to a third of it or less)",
                    "or find what stops the process: garbage collection, swapping, a throttled container, a suspended "
                    "virtual machine",
                ),
            ),
            *_pauses(case),
        ]
    certainly = bool(found) and all(each.is_certain for each in found)
    return case.from_departures(
        Kind.PAUSED,
        found,
        lambda who: (
            f"{who} stood still, though its process did not end"
            if certainly
            else f"{who} probably stood still, or was cut off from the network"
        ),
        (
            "look at what stops the process: SIGSTOP or a debugger, garbage collection, swapping, a throttled "
            "container, a suspended virtual machine",
            "if such pauses are normal, set session.timeout.ms above them",
        ),
    )


def _deaths(case: _Case) -> list[Finding]:
    found = case.of(Verdict.DIED)
    chains = _chains(case)
    looping = [each for each in found if chains[id(each.change)] >= CRASH_LOOP]
    told = case.from_departures(
        Kind.CRASH_LOOP,
        looping,
        lambda who: f"{who} dies and is started again, {times(len(looping))} so far",
        ("read the end of its log and its exit code: it dies of the same thing each time",),
    )
    return [
        *told,
        *case.from_departures(
            Kind.DIED,
            case.of(Verdict.DIED),
            lambda who: f"{who} died without a goodbye: killed (kill -9, out of memory), crashed, or its network broke",
            (
                "look at its log, its exit code, and the kernel's log for the out-of-memory killer",
                "call close() when it is told to stop (SIGTERM): others then take over at once instead of after "
                "session.timeout.ms",
            ),
        ),
    ]


def _chains(case: _Case) -> dict[int, int]:
    """For each departure how often this process, or the one that it took the place of, has died in all."""
    line: dict[str, list[Change]] = {}  # by member id: the deaths before, shared along a chain
    for each in case.departures:
        who = each.change.who
        if who is None or each.verdict is not Verdict.DIED:
            continue
        deaths = line.setdefault(who.id, [])
        deaths.append(each.change)
        if each.successor is not None and each.successor.who is not None:
            line[each.successor.who.id] = deaths
    return {
        id(each.change): len(line.get(each.change.who.id, ())) if each.change.who is not None else 0
        for each in case.departures
    }


def _static(case: _Case) -> list[Finding]:
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
    replaced = [change for change in _changes(case, What.STATIC_REPLACED) if change.at >= case.since]
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


def _rolling(case: _Case) -> list[Finding]:
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


def _other_departures(case: _Case) -> list[Finding]:
    restarted = [each for each in case.of(Verdict.CLOSED, Verdict.LEFT) if each.successor is not None]
    found = case.from_departures(
        Kind.RESTARTED,
        restarted,
        lambda who: f"{who} was closed and started again{_often(restarted)}",
        ("with a group.instance.id of its own (static membership) a restart needs no rebalance",),
    )
    for each, finding in zip(restarted[-1:], found, strict=True):
        assert each.successor is not None
        finding.evidence.append(f"one like it joined {seconds(each.successor.at - each.change.at)} later")
    closed = case.of(Verdict.CLOSED)
    left = {id(each.entry): each.entry for each in closed}
    if len(closed) > 1 and any(entry.outcome is not Outcome.EMPTY for entry in left.values()):
        found += case.from_departures(
            Kind.SCALED_DOWN,
            closed,
            lambda who: f"{who} were closed and nobody came in their place: the group was made smaller",
            (),
        )
    found += case.from_departures(Kind.CLOSED, case.of(Verdict.CLOSED), lambda who: f"{who} closed cleanly", ())
    for kind, verdict, summary, advice in _PLAIN_VERDICTS:
        found += case.from_departures(kind, case.of(verdict), summary, advice)
    return found


def _often(found: Sequence[object]) -> str:
    return f", {times(len(found))}" if len(found) > 1 else ""


_PLAIN_VERDICTS: Final[Sequence[tuple[Kind, Verdict, Callable[[str], str], Sequence[str]]]] = (
    (Kind.REMOVED, Verdict.REMOVED, lambda who: f"{who} was removed by an administrator", ()),
    (
        Kind.UNSUBSCRIBED,
        Verdict.UNSUBSCRIBED,
        lambda who: f"{who} left, though its process goes on: it probably unsubscribed",
        (),
    ),
    (Kind.LEFT, Verdict.LEFT, lambda who: f"{who} left", ()),
    (
        Kind.UNHEARD,
        Verdict.UNHEARD,
        lambda who: f"{who} was not heard of any more",
        ("look whether it still runs: it may have ended while there was no coordinator",),
    ),
)


def _joins(case: _Case) -> list[Finding]:
    """Those that nobody's going explains."""
    joined = [change for change in _changes(case, What.JOINED) if change.at >= case.since]
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


def _founding(case: _Case) -> set[int]:
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


def _others(case: _Case) -> list[Finding]:
    found: list[Finding] = []
    for kind, whats, summary, advice in _PLAIN_CHANGES:
        changes = [change for what in whats for change in _changes(case, what) if change.at >= case.since]
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


def _slowness(case: _Case) -> list[Finding]:
    found: list[Finding] = []
    slow = [
        (each, entry)
        for entry in case.recent()
        for each in entry.slow
        if each.after_ms >= SLOW_REJOIN_MS and entry.outcome is Outcome.COMPLETED
    ]
    if slow:
        worst, entry = max(slow, key=lambda pair: pair[0].after_ms)
        waited = seconds(entry.join_ms or worst.after_ms)
        names = list(dict.fromkeys(case.names.short(each.label) for each, _ in slow))
        found.append(
            Finding(
                Kind.SLOW_REJOIN,
                f"{listed(names)} kept the others waiting: up to {seconds(worst.after_ms)} until it joined again",
                slow[-1][1].at,
                len({entry.number for _, entry in slow}),
                True,
                names,
                [
                    f"in the rebalance of {clock(entry.at)} the group waited {waited} for members, "
                    f"{case.names.short(worst.label)} came last"
                ],
                [
                    "a member hears of a rebalance with its next heartbeat, and joins again with its next poll(): do "
                    "less between two polls, or use a cooperative assignor or the consumer protocol, with which the "
                    "others go on meanwhile",
                ],
            )
        )
    leaders = [entry for entry in case.recent() if (entry.assign_ms or 0) >= SLOW_LEADER_MS and entry.leader]
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


def _refusals(case: _Case) -> list[Finding]:
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


def _stalls(case: _Case) -> list[Finding]:
    stalled = [incident for incident in case.incidents if incident.change.what is What.COMMITS_STALLED]
    return [
        Finding(
            Kind.COMMITS_STALLED,
            f"nothing was committed for {seconds(incident.last - incident.at)}, though there is something to read",
            incident.last,
            len(stalled),
            True,
            [],
            [f"behind: {listed(incident.change.after)}", "heartbeats went on meanwhile: the members are alive"],
            [
                "a member may be stuck on one record, or commit only when it is asked to: look at its log",
            ],
        )
        for incident in stalled[-1:]
    ]


def _idle(case: _Case) -> list[Finding]:
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


def _changes(case: _Case, what: What) -> list[Change]:
    changes = [change for entry in case.rebalances for change in entry.changes if change.what is what]
    changes += [incident.change for incident in case.incidents if incident.change.what is what]
    return sorted(changes, key=lambda change: change.at)


_LOOKS: Final[Sequence[Callable[[_Case], list[Finding]]]] = (
    _poll_interval,
    _pauses,
    _deaths,
    _static,
    _rolling,
    _other_departures,
    _joins,
    _others,
    _slowness,
    _refusals,
    _stalls,
    _idle,
)
