"""Writes docs/reference/metrics.md from the metrics that the code declares.

python tools/generate_metrics_reference.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from ottla.broker import (
    controller_metrics,
    group_metrics,
    lag_metrics,
    node_metrics,
    quorum_metrics,
    request_metrics,
    txn_metrics,
)
from ottla.broker.telemetry import telemetry
from ottla.broker.tier import metrics as tier_metrics
from ottla.env import disk, loop_lag, process_metrics
from ottla.env.metrics import Family
from ottla.log.cleaning import state as cleaning_state
from ottla.wire import connection_metrics

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "metrics.md"

HEAD = """\
<!-- Written by tools/generate_metrics_reference.py from what the code declares: change that, then run it. -->
# Metrics

What `GET /metrics` tells ([how to turn it on](../how-to/watch-a-node.md)), in the text format of Prometheus. Names that
begin with `kafka_` are those that the usual rules of the JMX exporter make of Apache Kafka's, so dashboards and alerts
made for those work. Names that begin with `ottla_` have no counterpart there. Counters begin at 0 when a node starts.

A summary has quantiles of the last thousand or two (0.5, 0.75, 0.95, 0.98, 0.99, 0.999), `_sum` and `_count`; a
histogram has `_bucket`, `_sum` and `_count` since the start.
"""

PARTS: Sequence[tuple[str, ModuleType]] = (
    ("Topics, partitions and the cluster", node_metrics),
    ("The metadata quorum", quorum_metrics),
    ("The controller, and the way to it", controller_metrics),
    ("Groups and their lag, as exporters for Kafka name it", lag_metrics),
    ("Rebalances", group_metrics),
    ("Transactions", txn_metrics),
    ("Requests", request_metrics),
    ("Metrics of clients (KIP-714)", telemetry),
    ("Connections", connection_metrics),
    ("The event loop", loop_lag),
    ("Disks", disk),
    ("Compaction", cleaning_state),
    ("The remote tier", tier_metrics),
    ("The process", process_metrics),
)


def families_of(module: ModuleType) -> Iterator[Family]:
    """Those that stand in a module by themselves, and those in its tables."""
    for value in vars(module).values():
        if isinstance(value, Family):
            yield value
        elif isinstance(value, tuple):
            yield from (row[0] for row in value if isinstance(row, tuple) and row and isinstance(row[0], Family))


def families() -> list[Family]:
    return [family for _, module in PARTS for family in families_of(module)]


def render() -> str:
    parts = [HEAD]
    for title, module in PARTS:
        parts.append(f"\n## {title}\n\n| name | kind | labels | |\n|---|---|---|---|\n")
        for name, kind, told, labels in families_of(module):
            parts.append(f"| `{name}` | {kind.value} | {', '.join(labels)} | {told} |\n")
    return "".join(parts)


def main() -> None:
    TARGET.write_text(render())


if __name__ == "__main__":
    main()
