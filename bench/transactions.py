"""`python -m bench.transactions`: transactions beside Apache Kafka: how many a second, and what a commit takes.

--only NAME     parts whose name holds NAME

The same with three replicas on three nodes each: `python -m bench.replicated_transactions`.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from bench import load
from bench.bars import Bar, Direction
from bench.nodes import Node
from bench.parts import Part, Plan, run

PARTITIONS = 4
SECONDS = 5
_ONE, _TEN, _PACED = "1 producer x 1 record", "10 producers x 100 records", "10 producers at 300/s"
_STEADY = "commits every 100 ms"
_LOADS = {
    _ONE: {"producers": 1, "transactions": 1500, "records": 1},
    _TEN: {"producers": 10, "transactions": 200, "records": 100},
    # As fast as they can, ten producers find out how long a queue is. At one pace for both sides, how long a commit is.
    _PACED: {"producers": 10, "transactions": 120, "records": 100, "rate": 300},
}


def _transactions(name: str, share: float, node: Node, number: int) -> dict[str, Any]:
    arguments = _LOADS[name] | {"transactions": round(_LOADS[name]["transactions"] * share)}
    topic = f"of-{arguments['producers']}-at-{arguments.get('rate', 0)}-{number}"
    node.create_topic(topic, PARTITIONS)
    before = node.cpu_seconds()
    figures = load.run(
        "transactions", node.bootstrap, topic=topic, partitions=PARTITIONS, size=100, idempotence=1, **arguments
    )
    # Those that warm the clients up are not timed, and a fifth more.
    cpu = (node.cpu_seconds() - before) / (figures["records"] * 1.2)
    node.delete_topic(topic)
    os.sync()
    return {
        "rate": figures["rate"],
        "commit_p50_ms": round(figures["latency_us"]["p50"] / 1000, 3),
        "commit_p99_ms": round(figures["latency_us"]["p99"] / 1000, 3),
        "node_cpu_seconds_per_thousand": round(cpu * 1000, 3),
    }


def commits_every_100_ms(seconds: int, node: Node, number: int) -> dict[str, Any]:
    """What a producer writes that commits every 100 ms, against one without transactions."""
    rates = {}
    for commit_ms in (0, 100) if number % 2 else (100, 0):
        topic = f"steady-{commit_ms}-{number}"
        node.create_topic(topic, PARTITIONS)
        rates[commit_ms] = load.run(
            *("steady", node.bootstrap),
            topic=topic,
            partitions=PARTITIONS,
            size=100,
            idempotence=1,
            seconds=seconds,
            commit_ms=commit_ms,
        )["rate"]
        node.delete_topic(topic)
        os.sync()
    return {
        "plain_per_second": round(rates[0]),
        "per_second": round(rates[100]),
        "of_plain": round(rates[100] / rates[0], 3),
    }


def parts(share: float = 1.0) -> dict[str, Part]:
    """With so many of the transactions: several nodes on one machine take longer for each."""
    loads: dict[str, Part] = {name: partial(_transactions, name, share) for name in _LOADS}
    return loads | {_STEADY: partial(commits_every_100_ms, max(round(SECONDS * share), 2))}


def bars(rate_ratio: float) -> tuple[Bar, ...]:
    least, most = Direction.AT_LEAST, Direction.AT_MOST
    found = []
    for name in _LOADS:
        if name != _PACED:
            found.append(Bar(f"transactions a second, {name}", name, "rate", "1/s", least, rate_ratio))
        found += [
            Bar(f"commit, median, {name}", name, "commit_p50_ms", "ms", most, 1.0),
            Bar(f"commit, 99th of 100, {name}", name, "commit_p99_ms", "ms", most, 1.0),
            Bar(f"CPU of 1,000 transactions, {name}", name, "node_cpu_seconds_per_thousand", "s", most, 1.0),
        ]
    of_plain = "throughput with commits every 100 ms, of plain"
    return (*found, Bar(of_plain, _STEADY, "of_plain", "", least, 0.9, absolute=True))


if __name__ == "__main__":
    sys.exit(run(Plan("transactions", __doc__ or "", parts(), bars(1.2))))
