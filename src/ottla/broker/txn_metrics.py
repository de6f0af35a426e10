"""What a node tells about transactions: those that it coordinates, their markers, and partitions that they hold up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.coordinator.txn.transaction import TxnState
from ottla.env.metrics import Family, Gathered, Kind, labels

if TYPE_CHECKING:
    from ottla.broker.node import Node

_MARKERS: Final = "kafka_coordinator_transaction_transactionmarkerchannelmanager"
_LATE_AFTER_MS: Final = 5 * 60 * 1000

UNKNOWN: Final = Family(
    f"{_MARKERS}_unknowndestinationqueuesize", Kind.GAUGE, "Markers for partitions that nobody leads at the moment."
)  # fmt: skip
RETRIED: Final = Family(
    f"{_MARKERS}_logappendretryqueuesize", Kind.GAUGE, "Transactions whose end is still to be written to their log."
)  # fmt: skip
LATE: Final = Family(
    "kafka_server_replicamanager_partitionswithlatetransactionscount",
    Kind.GAUGE,
    "Partitions led here with a transaction that is open for longer than any may be, and five minutes: it hangs.",
)
UNFINISHED: Final = Family(
    "ottla_transactions_unfinished", Kind.GAUGE, "Transactions that are decided, and not all partitions know of it."
)  # fmt: skip
BY_STATE: Final = Family(
    "ottla_transactional_ids", Kind.GAUGE, "Transactional ids that this node coordinates, by state.", ("state",)
)  # fmt: skip


class TxnMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Gathered]:
        node = self._node
        if not node.is_serving or node.broker is None:
            return
        markers = node.txns.markers
        yield Gathered(UNKNOWN, [("", markers.without_leader)])
        yield Gathered(RETRIED, [("", markers.completed_again)])
        yield Gathered(UNFINISHED, [("", markers.unfinished)])
        yield Gathered(LATE, [("", self._late())])
        states = Counter(
            transaction.state for shard in node.txns.runtime.active for _, transaction in shard.machine.committed()
        )
        yield Gathered(BY_STATE, [(labels(state=state.text), states[state]) for state in TxnState])

    def _late(self) -> int:
        node = self._node
        before_ms = node.env.clock.now_ms() - node.config.transaction_max_timeout_ms - _LATE_AFTER_MS
        return sum(
            0 < partition.log.producers.oldest_open_ms() < before_ms
            for partition in node.replicas.by_name.values()
            if partition.is_leader
        )
