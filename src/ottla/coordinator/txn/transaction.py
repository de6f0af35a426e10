"""What is known of one transactional id: its producer, and how far its transaction has come.

    Empty -> Ongoing -> PrepareCommit -> CompleteCommit
                     -> PrepareAbort  -> CompleteAbort

From a complete one the next begins, or a producer starts anew (Empty). With `PrepareX` in the log the outcome is
decided; it is complete when every partition has its marker. With transactions' second version (KIP-890) a producer that
does not know how far it came may abort what never began: then PrepareAbort follows directly on any state at rest.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from ottla.model.names import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

MAX_EPOCH: Final = 2**15 - 1
FOR_EVER: Final = 2**31 - 1
"""As a timeout: of a transaction that another coordinator ends (KIP-939)."""
EPOCH_BUMPS_FROM: Final = 2
"""The transaction version from which on each transaction has an epoch of its own."""


class TxnState(IntEnum):
    """The numbers are those of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """As Kafka writes it in answers."""
        return "".join(word.title() for word in self.name.split("_"))


BY_TEXT: Final = {state.text: state for state in TxnState}
AT_REST: Final = frozenset({TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT})
ENDING: Final = frozenset({TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT})


class ProducerEpoch(NamedTuple):
    """Who a producer is, or believes to be."""

    producer_id: int
    epoch: int


NOBODY: Final = ProducerEpoch(NO_PRODUCER_ID, NO_EPOCH)


class Transaction(NamedTuple):
    producer_id: int
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: TxnState = TxnState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    start_ms: int = NO_TIMESTAMP
    updated_ms: int = NO_TIMESTAMP
    client_version: int = 0
    """The transaction version that the client spoke when it came to this state."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The producer's id once this transaction is over, if its epochs are used up."""
    last_epoch: int = NO_EPOCH
    """The epoch before this one, if the producer itself asked for a new one. Not in the log: as in Kafka, a repeated
    InitProducerId is not known as such after the coordinator has moved."""

    @property
    def producer(self) -> ProducerEpoch:
        return ProducerEpoch(self.producer_id, self.epoch)

    @property
    def is_exhausted(self) -> bool:
        """The last epoch is never given to a client: so that whoever has the one before can still be fenced."""
        return self.epoch >= MAX_EPOCH - 1

    @property
    def after_markers(self) -> ProducerEpoch:
        """Who the producer is when the transaction is over."""
        if self.client_version >= EPOCH_BUMPS_FROM and self.next_producer_id != NO_PRODUCER_ID:
            return ProducerEpoch(self.next_producer_id, 0)
        return self.producer


class Marker(NamedTuple):
    """What every partition of a transaction is told of its end."""

    producer: ProducerEpoch
    is_commit: bool
    coordinator_epoch: int
    version: int = 0
    decided_ms: int = NO_TIMESTAMP
    """Tells it from the end of another transaction of the same epoch, as the first version has them. Not written."""
