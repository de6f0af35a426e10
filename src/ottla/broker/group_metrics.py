"""What a node tells about the rebalances of groups that it coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.coordinator.group.history.entries import Outcome, Rebalance
from ottla.env.metrics import Family, Gathered, Kind, Times, labels

REBALANCES: Final = Family(
    "ottla_group_rebalances_total",
    Kind.COUNTER,
    "Rebalances of groups, by what began them (`left`, `expired`, `joined`, ...).",
    ("protocol", "cause"),
)
SECONDS: Final = Family(
    "ottla_group_rebalance_seconds",
    Kind.HISTOGRAM,
    "How long rebalances took, from the first cause until all members knew what they have.",
    ("protocol",),
)
COMPLETED_CLASSIC: Final = Family(
    "kafka_server_group_coordinator_metrics_group_completed_rebalance_count",
    Kind.GAUGE,
    "Rebalances of classic groups that were completed.",
)
COMPLETED_CONSUMER: Final = Family(
    "kafka_server_group_coordinator_metrics_consumer_group_rebalance_count",
    Kind.GAUGE,
    "Rebalances of consumer groups.",
)
_PROTOCOLS: Final = ("classic", "consumer")


class RebalanceMetrics:
    def __init__(self) -> None:
        self._causes: dict[tuple[str, str], int] = {}
        self._times = {protocol: Times() for protocol in _PROTOCOLS}
        self._completed = dict.fromkeys(_PROTOCOLS, 0)

    def note(self, rebalance: Rebalance) -> None:
        cause = rebalance.changes[0].what.value if rebalance.changes else "unknown"
        key = (rebalance.protocol, cause)
        self._causes[key] = self._causes.get(key, 0) + 1
        if rebalance.outcome is Outcome.COMPLETED and rebalance.ended is not None:
            self._completed[rebalance.protocol] += 1
            self._times[rebalance.protocol].note((rebalance.ended - rebalance.at) / 1000)

    def collect(self) -> Iterator[Gathered]:
        causes = [(labels(protocol=protocol, cause=cause), count) for (protocol, cause), count in self._causes.items()]
        yield Gathered(REBALANCES, causes)
        rows = [row for protocol, times in self._times.items() for row in times.histogram(f'protocol="{protocol}"')]
        yield Gathered(SECONDS, rows)
        yield Gathered(COMPLETED_CLASSIC, [("", self._completed["classic"])])
        yield Gathered(COMPLETED_CONSUMER, [("", self._completed["consumer"])])
