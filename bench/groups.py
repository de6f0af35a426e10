"""`python -m bench.groups`: consumer groups beside Apache Kafka: crowds of members, commits, loading, pauses.

--only NAME     parts whose name holds NAME
"""

from __future__ import annotations

import sys

from bench import commits, crowded_groups, pauses
from bench.bars import Bar, Direction
from bench.parts import Part, Plan, run

# Both sides alike. Members of the consumer protocol are told how often to speak: so that a bench need not last, often.
SETTINGS: dict[str, str | int | bool] = {
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 1000,
}

PARTS: dict[str, Part] = {
    "commits": commits.commit,
    "1,000 members, classic": crowded_groups.classic,
    "1,000 members, consumer": crowded_groups.consumer,
    "5,000 groups: load": commits.load_after_restart,
    "static members": pauses.restart_static_members,
    "pause, eager": pauses.eager,
    "pause, cooperative": pauses.cooperative,
    "pause, consumer": pauses.consumer,
}


def _bars() -> tuple[Bar, ...]:
    least, most = Direction.AT_LEAST, Direction.AT_MOST
    bars = [
        Bar("commits a second, 100 groups on 10 connections", "commits", "rate", "1/s", least, 1.0),
        Bar("commits: CPU a million", "commits", "node_cpu_seconds_per_million", "s/M", most, 0.7),
        Bar("5,000 groups of 20 offsets: start to loaded", "5,000 groups: load", "seconds", "s", most, 1.0),
        Bar("5,000 groups of 20 offsets: listening to loaded", "5,000 groups: load", "listening", "s", most, 1.0),
        Bar("5 static members restarted: rebalances", "static members", "rebalances", "", most, 0.0, absolute=True),
    ]
    for kind in ("classic", "consumer"):
        crowd = f"1,000 members, {kind}"
        bars += [
            Bar(f"{crowd}: all have joined", crowd, "joined", "s", most, 1.0),
            Bar(f"{crowd}: one has left", crowd, "left", "s", most, 1.0),
            Bar(f"{crowd}: longest stall", crowd, "longest_stall_ms", "ms", most, 50.0, absolute=True),
            Bar(f"{crowd}: memory", crowd, "rss", "MB", most, 0.25),
            Bar(f"{crowd}: CPU", crowd, "node_cpu_seconds", "s", most),
        ]
    for kind in ("eager", "cooperative", "consumer"):
        bars.append(Bar(f"pause when a member is added, {kind}", f"pause, {kind}", "longest_ms", "ms", most, 1.0))
    return tuple(bars)


if __name__ == "__main__":
    sys.exit(run(Plan("groups", __doc__ or "", PARTS, _bars(), SETTINGS)))
