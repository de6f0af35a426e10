"""Which batches belong to aborted transactions, and when the marker of one has nothing left to say.

A marker may go once no batch of its transaction is left before it; and not at once even then, but after
delete.retention.ms, as tombstones do: a reader in the middle of the transaction must still come across it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ottla.log.txn_index import AbortedTxn


class Marker(Enum):
    ABORT = "abort"
    COMMIT = "commit"
    OTHER = "of another kind"
    EMPTIED = "emptied by an earlier cleaning"


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self.kept: list[AbortedTxn] = []
        """Those whose entry a reader still needs. For the index of the segment that is being written."""
        self._to_come = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._aborting: dict[int, AbortedTxn] = {}  # by producer id
        self._seen: set[int] = set()  # producers of those, of which a batch was met
        self._committing: set[int] = set()

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            txn = self._to_come.pop()
            self._aborting.setdefault(txn.producer_id, txn)

    def on_data(self, producer_id: int, last_offset: int, is_transactional: bool) -> bool:
        """True if the batch was aborted."""
        self._begin_up_to(last_offset)
        if not is_transactional:
            return False
        if producer_id in self._aborting:
            self._seen.add(producer_id)
            return True
        self._committing.add(producer_id)
        return False

    def on_marker(self, producer_id: int, last_offset: int, marker: Marker) -> bool:
        """True if nothing of its transaction was met."""
        self._begin_up_to(last_offset)
        if marker is Marker.ABORT:
            txn = self._aborting.pop(producer_id, None)
            if txn is None or producer_id not in self._seen:
                return True
            self._seen.discard(producer_id)
            self.kept.append(txn)
            return False
        if marker is Marker.COMMIT:
            was_met = producer_id in self._committing
            self._committing.discard(producer_id)
            return not was_met
        return marker is Marker.EMPTIED
