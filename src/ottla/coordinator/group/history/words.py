"""Sentences for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ottla.coordinator.group.history.entries import Change, Outcome, Rebalance, What, Who


def name(who: Who | None) -> str:
    """A member, as people know it."""
    if who is None:
        return "a member"
    own = f"{who.instance} (static)" if who.instance is not None else who.client or "a member"
    return f"{own} at {who.host}" if who.host else own


def clock(at_ms: int) -> str:
    """A moment, in local time; the day only if it is not today."""
    at = datetime.fromtimestamp(at_ms / 1000)
    return at.strftime("%H:%M:%S" if at.date() == datetime.now().date() else "%Y-%m-%d %H:%M:%S")


def listed(names: Sequence[str], most: int = 4) -> str:
    """`a, b and c`; of many the first, and how many more."""
    shown = list(names) if len(names) <= most else [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def seconds(ms: float) -> str:
    """A span, as exact as is useful."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    for unit_ms, most, unit in ((1000, 120, "s"), (60_000, 60, "min"), (3_600_000, 48, "h"), (86_400_000, 0, "days")):
        count = ms / unit_ms
        if count < most or not most:
            return f"{count:.0f} {unit}" if count >= 10 else f"{count:.1f}".removesuffix(".0") + f" {unit}"
    raise AssertionError


def happened(change: Change, called: str | None = None) -> str:
    """What a change is, in a few words and without conclusions; `called` is how to call the member."""
    who = called or name(change.who)
    match change.what:
        case What.SUBSCRIPTION_CHANGED:
            return f"{who} changed its subscription from {_topics(change.before)} to {_topics(change.after)}"
        case What.PARTITIONS_CHANGED:
            return f"partitions changed from {_topics(change.before)} to {_topics(change.after)}"
        case What.EXPIRED:
            session = change.evidence.session_ms if change.evidence is not None else 0
            return f"the session of {who} ran out{f' ({seconds(session)})' if session else ''}"
    told = _PLAIN[change.what].format(who=who)
    return f"{told} ({change.reason})" if change.reason else told


def _topics(names: list[str]) -> str:
    return ", ".join(names) or "nothing"


_PLAIN = {
    What.JOINED: "{who} joined",
    What.REJOINED: "{who} joined again",
    What.LEADER_REJOINED: "the leader, {who}, asked for it",
    What.ASSIGNOR_CHANGED: "the assignor changed",
    What.PROTOCOL_CHANGED: "the group moved to the other protocol",
    What.HANDED_OVER: "{who} gave up partitions for others (cooperative, second step)",
    What.LEFT: "{who} left",
    What.REMOVED: "{who} was removed by an administrator",
    What.REJOIN_MISSED: "{who} did not join again in time",
    What.SYNC_MISSED: "{who} did not ask for its assignment in time",
    What.REVOCATION_MISSED: "{who} did not give up its partitions in time",
    What.STATIC_REPLACED: "{who} came back",
    What.STATIC_AWAY: "{who} went away for a while",
    What.FENCED: "{who} was fenced",
    What.REFUSED: "{who} was refused",
    What.OVER_CAPACITY: "the group is larger than group.max.size",
    What.NOT_STORED: "the assignment could not be stored",
    What.TOOK_OVER: "a coordinator took over",
    What.COMMITS_STALLED: "commits stalled",
}


def in_one_line(rebalance: Rebalance) -> str:
    """For the log."""
    causes = [happened(change) for change in rebalance.changes[:3]]
    further = len(rebalance.changes) - len(causes) + sum(rebalance.further.values())
    because = "; ".join(causes) + (f"; and {further} more" if further else "")
    took = seconds((rebalance.ended or rebalance.at) - rebalance.at)
    kind = "generation" if rebalance.protocol == "classic" else "epoch"
    if rebalance.outcome is Outcome.EMPTY:
        return f"without members since {kind} {rebalance.generation}, because {because}"
    if rebalance.outcome is Outcome.SUPERSEDED:
        return f"rebalancing begins again after {took}; it was because {because}"
    phases = [
        f"{what} {seconds(ms)}"
        for what, ms in (("joins", rebalance.join_ms), ("assigning", rebalance.assign_ms))
        if ms is not None
    ]
    return (
        f"rebalanced to {kind} {rebalance.generation} in {took} ({', '.join(phases)}), because {because}; "
        f"{rebalance.members} members, {rebalance.moved} of {rebalance.partitions} partitions moved"
    )
