"""Why members are gone, concluded from what was seen of them.

Brokers never see poll(), and many clients give no reason when they leave. What is seen: whether a member said goodbye,
what its connection did, when it was last heard and last committed, and who came afterwards by the same connection.

| goodbye | connection | then | verdict |
|---|---|---|---|
| with a reason | | | what it says |
| yes | closed at once, or soon and it did not come back | | it was closed |
| yes | stays | no commits for long, it has been in for that long; may come back by it | poll interval, probably |
| yes | stays | it had just committed, or just joined | unsubscribed, probably |
| no, session ran out | had been closed | | it died |
| no, session ran out | stays | comes back by it, or speaks under its old id | it was paused |
| no, session ran out | stays | | paused or cut off, probably |
| no, session ran out | | the broker itself had stood still; it speaks as soon as that goes on | nobody's fault |
| no, it did not join again in time | stays, with heartbeats | | poll interval, probably |
| no, it did not give up partitions | stays, with heartbeats | it had just committed | never heard of it, probably |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ottla.coordinator.group.history.entries import DEPARTURES, Change, End, Entry, Evidence, Incident, Rebalance, What
from ottla.coordinator.group.history.likeness import is_alike
from ottla.coordinator.group.history.words import clock, seconds

CLOSED_SOON_MS: Final = 2000
"""A client that closes ends its connection as soon as it has left."""
CLOSED_LATER_MS: Final = 15_000
"""On a busy machine that may take a while. One that only unsubscribes keeps it for minutes."""
SUCCESSOR_WITHIN_MS: Final = 10 * 60_000
HEARD_AGAIN_MS: Final = 2000
"""How soon after a node has stood still all that waited in its connections is read, and answered by clients."""
STILL_FOR_LONG: Final = 0.5
"""The share of a session from which on a standstill of the broker may be why it ran out."""
LATE_ANSWER_MS: Final = 500
"""By this much an answer comes too late for clients that wait for it only from one heartbeat to the next."""
SURGE_MS: Final = 30_000
"""How long before an old one is closed its successor may have come, where that one is started first."""
_REASONS: Final = (("poll timeout", "poll_interval"), ("being closed", "closed"), ("unsubscribed", "unsubscribed"))
"""What Apache Kafka's own client says (KIP-800), and what it means."""


class Verdict(Enum):
    CLOSED = "closed"
    UNSUBSCRIBED = "unsubscribed"
    POLL_INTERVAL = "poll interval"
    LEFT = "left"
    REMOVED = "removed"
    DIED = "died"
    PAUSED = "paused"
    STATIC_TOO_LATE = "static too late"
    UNHEARD = "unheard"
    HELD_ON = "held on"
    BROKER_STOOD_STILL = "broker stood still"


@dataclass(slots=True)
class Departure:
    change: Change
    entry: Rebalance
    verdict: Verdict
    is_certain: bool = True
    clues: list[str] = field(default_factory=list)
    returned: Change | None = None
    """The same process joined again."""
    successor: Change | None = None
    """Another one like it joined, as after a restart."""
    pause_ms: int | None = None

    @property
    def evidence(self) -> Evidence:
        return self.change.evidence or Evidence()


def departures(entries: Sequence[Entry]) -> list[Departure]:
    """In the order of their happening."""
    joins = sorted(_joins(entries), key=lambda join: join.at)
    taken: set[int] = set()
    found = [_judged(change, entry, joins, taken) for change, entry in _gone(entries)]
    for departure in found:
        if departure.returned is None and departure.verdict in _MAY_BE_SUCCEEDED:
            departure.successor = _successor(departure, joins, taken)
        if departure.change.what is What.EXPIRED and departure.evidence.stood_still_ms:
            _judge_broker(departure)
    return found


_MAY_BE_SUCCEEDED: Final = frozenset(
    {Verdict.CLOSED, Verdict.DIED, Verdict.LEFT, Verdict.STATIC_TOO_LATE, Verdict.UNHEARD, Verdict.PAUSED}
)


def _gone(entries: Sequence[Entry]) -> list[tuple[Change, Rebalance]]:
    found = [
        (change, entry)
        for entry in entries
        if isinstance(entry, Rebalance)
        for change in entry.changes
        if change.what in DEPARTURES
    ]
    return sorted(found, key=lambda each: each[0].at)


def _joins(entries: Sequence[Entry]) -> list[Change]:
    changes = [
        change
        for entry in entries
        for change in ([entry.change] if isinstance(entry, Incident) else entry.changes)
        if change.what in (What.JOINED, What.STATIC_REPLACED)
    ]
    return changes


def _judged(change: Change, entry: Rebalance, joins: Sequence[Change], taken: set[int]) -> Departure:
    departure = Departure(change, entry, Verdict.LEFT)
    departure.returned = _return(change, joins)
    if departure.returned is not None:
        taken.add(id(departure.returned))
    if change.what is What.LEFT:
        _judge_left(departure)
    elif change.what is What.REMOVED:
        departure.verdict = Verdict.REMOVED
        departure.clues.append("somebody else said that it leaves, not the member itself")
    elif change.what is What.EXPIRED:
        _judge_expired(departure)
    else:
        _judge_missed(departure)
    return departure


def _return(change: Change, joins: Sequence[Change]) -> Change | None:
    """The first join after it by the same connection, or under the same id, which consumers keep for life."""
    peer = change.evidence.peer if change.evidence is not None else None
    who = change.who
    for join in joins:
        if join.who is None:
            continue
        is_same_line = peer is not None and join.peer == peer
        if join.at < change.at and not (is_same_line and _gave_up_its_id(change, join)):
            continue
        if is_same_line or (who is not None and join.who.id == who.id):
            return join
    return None


def _gave_up_its_id(change: Change, join: Change) -> bool:
    """A client that got no answers for the time of its session joins as somebody new; whom it was before runs out."""
    seen = change.evidence
    return (
        change.what is What.EXPIRED
        and change.who is not None
        and join.who is not None
        and join.who.id != change.who.id
        and seen is not None
        and seen.heard is not None
        and join.at >= seen.heard
    )


def _successor(departure: Departure, joins: Sequence[Change], taken: set[int]) -> Change | None:
    """One like it that joined after it had ended, which may be before the group knew; or just before it was closed."""
    change, seen = departure.change, departure.evidence
    ended = min(change.at, seen.closed) if seen.closed is not None else change.at
    afterwards = [join for join in joins if 0 <= join.at - ended <= SUCCESSOR_WITHIN_MS]
    before = [join for join in joins if 0 < ended - join.at <= SURGE_MS and join.at - (seen.joined or 0) > SURGE_MS]
    candidates = before + afterwards if departure.verdict is Verdict.CLOSED else afterwards
    for join in candidates:
        if id(join) in taken or join.what is not What.JOINED or change.who is None or join.who is None:
            continue
        if join.who.id != change.who.id and is_alike(change.who, join.who):
            taken.add(id(join))
            return join
    return None


# -- it said goodbye


def _judge_left(departure: Departure) -> None:
    change, seen = departure.change, departure.evidence
    if change.reason:
        departure.clues.append(f"its client says: {change.reason}")
        for words, verdict in _REASONS:
            if words in change.reason:
                departure.verdict = Verdict[verdict.upper()]
        return
    if seen.peer is None:
        departure.clues.append("it left by itself; what became of its connection is not known")
        return
    if seen.closed is not None and seen.closed - change.at <= CLOSED_SOON_MS:
        departure.verdict = Verdict.CLOSED
        departure.clues.append("it said goodbye and closed its connection, as clients do that are closed")
        return
    if seen.closed is not None and seen.closed - change.at <= CLOSED_LATER_MS and _just_ended(departure):
        departure.verdict = Verdict.CLOSED
        departure.is_certain = False
        departure.clues.append(f"it said goodbye, and its connection ended {seconds(seen.closed - change.at)} later")
        return
    departure.is_certain = False
    stays = f"stayed open for {seconds(seen.closed - change.at)}" if seen.closed is not None else "stays open"
    departure.clues.append(f"it left by itself, but its connection {stays}: its process goes on")
    if _had_stalled(change, seen):
        departure.verdict = Verdict.POLL_INTERVAL
        departure.clues.append(_silence(change, seen))
    else:
        departure.verdict = Verdict.UNSUBSCRIBED
    _tell_return(departure)


def _just_ended(departure: Departure) -> bool:
    return departure.returned is None and not _had_stalled(departure.change, departure.evidence)


def _had_stalled(change: Change, seen: Evidence) -> bool:
    """Whether it may have been too long without poll(): it was in for that long, and committed nothing meanwhile."""
    if seen.poll_ms <= 0:
        return False
    was_in_for = change.at - seen.joined if seen.joined is not None else seen.poll_ms
    silent_for = (change.at - seen.committed if seen.committed is not None else was_in_for) - seen.stood_still_ms
    return was_in_for >= 0.9 * seen.poll_ms and silent_for >= 0.5 * seen.poll_ms


def _silence(change: Change, seen: Evidence) -> str:
    limit = f"its max.poll.interval.ms is {seconds(seen.poll_ms)}"
    if seen.committed is None:
        return f"it sent heartbeats until then, and never committed anything ({limit})"
    for_long = seconds(change.at - seen.committed)
    return f"it sent heartbeats until then, but had committed nothing for {for_long} ({limit})"


def _tell_return(departure: Departure) -> None:
    if departure.returned is not None:
        after = seconds(departure.returned.at - departure.change.at)
        departure.clues.append(f"the same client joined again {after} later, by the same connection")


# -- its session ran out


def _judge_expired(departure: Departure) -> None:
    change, seen = departure.change, departure.evidence
    is_static = change.who is not None and change.who.instance is not None
    session = f"its session timeout is {seconds(seen.session_ms)}" if seen.session_ms else "its session ran out"
    if seen.closed is not None and seen.closed <= change.at and departure.returned is None:
        how = "was reset" if seen.end is End.RESET else "ended"
        departure.clues.append(f"its connection {how} at {clock(seen.closed)} without a goodbye")
        departure.clues.append(
            f"it was not heard of again until its session ran out {seconds(change.at - seen.closed)} later ({session})"
        )
        departure.verdict = Verdict.STATIC_TOO_LATE if is_static else Verdict.DIED
        return
    if seen.peer is None:
        departure.verdict = Verdict.UNHEARD
        if seen.taken_over is not None:
            departure.clues.append(
                f"it was not heard of since this coordinator took over at {clock(seen.taken_over)} ({session})"
            )
        else:
            departure.clues.append(f"it was not heard of any more ({session})")
        return
    if departure.returned is not None and departure.returned.at <= change.at and seen.heard is not None:
        departure.verdict = Verdict.UNHEARD
        departure.clues.append(
            f"its process had joined anew by the same connection at {clock(departure.returned.at)}, as clients do that "
            f"got no answer for as long as their session lasts ({session})"
        )
        return
    departure.verdict = Verdict.PAUSED
    back = _first(seen.returned, departure.returned.at if departure.returned is not None else None)
    last = seen.heard if seen.heard is not None else change.at - seen.session_ms
    departure.clues.append(
        f"nothing was heard of it from {clock(last)} on, while its connection stayed open ({session})"
    )
    if back is not None:
        departure.pause_ms = back - last
        departure.clues.append(f"it spoke again at {clock(back)}, after {seconds(back - last)}, by the same connection")
        return
    departure.is_certain = False
    if seen.closed is not None:
        departure.clues.append(f"its connection ended later, at {clock(seen.closed)}")


def _judge_broker(departure: Departure) -> None:
    """It was not heard, and the broker did not listen. One that speaks as soon as it does had not been silent; a client
    that waits in vain for answers may close its connection meanwhile and come back by another."""
    change, seen = departure.change, departure.evidence
    departure.clues.append(_standstill(seen))
    joined = [join.at for join in (departure.returned, departure.successor) if join is not None]
    back = _first(seen.returned, *joined)
    last = seen.heard if seen.heard is not None else change.at - seen.session_ms
    is_long = seen.stood_still_ms >= STILL_FOR_LONG * seen.session_ms
    if not is_long or back is None or back - change.at > HEARD_AGAIN_MS:
        return
    if back - last - seen.stood_still_ms >= seen.session_ms:
        return
    departure.verdict = Verdict.BROKER_STOOD_STILL
    departure.is_certain = True
    departure.pause_ms = None
    departure.clues.append(f"it was heard again at {clock(back)}, as soon as the broker went on")


def _standstill(seen: Evidence) -> str:
    return f"this broker itself stood still for {seconds(seen.stood_still_ms)} meanwhile, and heard nobody"


def _first(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


# -- it was waited for in vain


def _judge_missed(departure: Departure) -> None:
    change, seen = departure.change, departure.evidence
    waited = {
        What.REJOIN_MISSED: "the group waited for it to join again until its rebalance timeout was over",
        What.SYNC_MISSED: "it joined, and did not ask for its assignment until its rebalance timeout was over",
        What.REVOCATION_MISSED: "others waited for its partitions until its rebalance timeout was over",
    }[change.what]
    limit = f" ({seconds(seen.poll_ms)}, its max.poll.interval.ms)" if seen.poll_ms else ""
    departure.clues.append(waited + limit)
    if seen.closed is not None and seen.closed <= change.at:
        departure.verdict = Verdict.DIED
        departure.clues.append(f"its connection had ended at {clock(seen.closed)} without a goodbye")
        return
    departure.is_certain = False
    if seen.stood_still_ms:
        departure.clues.append(_standstill(seen))
    if change.what is What.REVOCATION_MISSED and seen.committed is not None and not _had_stalled(change, seen):
        is_late = seen.stood_still_ms >= LATE_ANSWER_MS
        departure.verdict = Verdict.BROKER_STOOD_STILL if is_late else Verdict.HELD_ON
        departure.clues.append(f"it was alive and committed until {clock(seen.committed)}: it did call poll()")
        _tell_return(departure)
        return
    departure.verdict = Verdict.POLL_INTERVAL
    if seen.heard is not None:
        departure.clues.append(f"it was heard until {clock(seen.heard)}: it is alive, but does not call poll()")
    _tell_return(departure)
