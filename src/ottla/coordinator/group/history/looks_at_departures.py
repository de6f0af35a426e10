"""Findings about members that are gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ottla.coordinator.group.history.case import Case
from ottla.coordinator.group.history.departures import Verdict
from ottla.coordinator.group.history.entries import Change, Outcome
from ottla.coordinator.group.history.finding import Finding, Kind
from ottla.coordinator.group.history.words import seconds, times

CRASH_LOOP: Final = 3
"""Deaths of the same process."""


def poll_interval(case: Case) -> list[Finding]:
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


def pauses(case: Case) -> list[Finding]:
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
            *pauses(case),
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


def deaths(case: Case) -> list[Finding]:
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
            lambda who: f"{who} died without a goodbye: killed (kill -9, out of memory), crashed, or the network broke",
            (
                "look at its log, its exit code, and the kernel's log for the out-of-memory killer",
                "call close() when it is told to stop (SIGTERM): others then take over at once instead of after "
                "session.timeout.ms",
            ),
        ),
    ]


def _chains(case: Case) -> dict[int, int]:
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


def other_departures(case: Case) -> list[Finding]:
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
    (
        Kind.BROKER_STOOD_STILL,
        Verdict.BROKER_STOOD_STILL,
        lambda who: f"the broker itself stood still and could not hear {who}: nobody in the group is to blame",
        (
            "look at what stopped the broker: too little CPU, a throttled container, swapping, a suspended virtual "
            "machine (ottla_loop_lag_seconds shows when)",
            "a session.timeout.ms above such standstills keeps the group as it is",
        ),
    ),
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
    (
        Kind.HELD_ON,
        Verdict.HELD_ON,
        lambda who: (
            f"{who} did not give up its partitions in time, though it was alive: its client probably never got the "
            "answer that asked for them"
        ),
        (
            "see whether the broker or the network was slow then: librdkafka waits for the answer to a heartbeat only "
            "as long as its interval (group.consumer.heartbeat.interval.ms), and never asks again for what it missed",
            "or see whether it takes too long when partitions are taken from it (its rebalance callback)",
        ),
    ),
)
