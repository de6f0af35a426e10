"""What one partition of `__transaction_state` holds: transactional ids, and what is asked of them.

Decisions are in `decisions.py`; here they become records and, once these are committed, markers. Where Kafka answers
CONCURRENT_TRANSACTIONS because a change is not committed yet, the next decision here builds on it, and its reply waits
for both: a client hears CONCURRENT_TRANSACTIONS only while markers are being written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol, TypeVar

from ottla.coordinator.machine import Outcome, StoredRecord, Timers
from ottla.coordinator.timeline import Timeline, TimelineDict
from ottla.coordinator.txn import decisions
from ottla.coordinator.txn.records import read_key, read_value, record_of, tombstone
from ottla.coordinator.txn.transaction import (
    AT_REST,
    ENDING,
    EPOCH_BUMPS_FROM,
    FOR_EVER,
    NOBODY,
    Marker,
    ProducerEpoch,
    Transaction,
    TxnState,
)
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition

R = TypeVar("R")
_log = logging.getLogger("ottla.coordinator")
_LEFT: Final = "go on with what was decided"
_TIMEOUTS: Final = "abort overdue transactions"
_EXPIRY: Final = "forget unused transactional ids"
_GOES_ON: Final = "forget more transactional ids"
_AT_ONCE: Final = 1000
_NONE: Final = ErrorCode.none


class Settings(NamedTuple):
    expiration_ms: int
    timeout_check_ms: int
    expiration_check_ms: int


class MarkerPort(Protocol):
    """Tells partitions, wherever they are led, of the end of transactions, until each has heard it.

    When all have, it runs `TxnMachine.complete` as an operation.
    """

    def send(self, transactional_id: str, marker: Marker, partitions: Sequence[TopicPartition]) -> None: ...


class Surroundings(NamedTuple):
    timers: Timers
    markers: MarkerPort
    now_ms: Callable[[], int]
    take_producer_id: decisions.TakeId
    transaction_version: Callable[[], int]
    """The level of the feature, as it is finalised in the cluster."""
    settings: Callable[[], Settings]
    coordinator_epoch: int


class Initialised(NamedTuple):
    code: ErrorCode
    producer: ProducerEpoch = NOBODY


Ended = Initialised
"""EndTxn tells the same."""


class Listed(NamedTuple):
    transactional_id: str
    transaction: Transaction


class TxnMachine:
    def __init__(self, timeline: Timeline, surroundings: Surroundings) -> None:
        self.transactions: TimelineDict[str, Transaction] = TimelineDict(timeline)
        self._around = surroundings

    # -- what records say

    def replay(self, record: StoredRecord, producer_id: int, producer_epoch: int) -> None:
        transactional_id = read_key(record.key)
        if transactional_id is None:
            return  # of a kind that is not known here; it stays in the log for those who know it
        if record.value is None:
            self.transactions.pop(transactional_id)
            return
        transaction = read_value(record.value)
        if transaction is not None:
            self.transactions[transactional_id] = transaction
        else:
            _log.warning("the record of transactional id %s is of an unknown version, and left alone", transactional_id)

    def end_transaction(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None:
        """Nobody writes to this topic in transactions."""

    def started(self) -> None:
        """What was decided and not finished goes on: the outcome is in the log, the markers may be anywhere."""
        if any(transaction.state in ENDING for _, transaction in self.transactions.items()):
            self._around.timers.set(_LEFT, 0, self._finish_what_was_left)
        self._look_for_timeouts_later()
        self._expire_later()

    def _finish_what_was_left(self) -> Outcome[None]:
        """Once all that was loaded is committed: until then the next leader may not know of the decision."""
        left = [(name, each) for name, each in self.transactions.items() if each.state in ENDING]

        def send() -> None:
            for transactional_id, transaction in left:
                self._send_markers(transactional_id, transaction)

        return Outcome(None, committed=send)

    def stopped(self) -> None:
        pass

    # -- requests

    def initialise(
        self, transactional_id: str, timeout_ms: int, expected: ProducerEpoch | None
    ) -> Outcome[Initialised]:
        around = self._around
        decision = decisions.initialise(
            self.transactions.get(transactional_id),
            timeout_ms,
            expected,
            around.now_ms(),
            around.take_producer_id,
            around.transaction_version(),
        )
        if isinstance(decision, ErrorCode):
            return Outcome(Initialised(decision))
        if decision.state is TxnState.PREPARE_ABORT:  # the client comes again, when that is over
            return self._end(transactional_id, decision, Initialised(ErrorCode.concurrent_transactions))
        return self._write(transactional_id, decision, Initialised(_NONE, decision.producer))

    def add_partitions(
        self, transactional_id: str, producer: ProducerEpoch, partitions: Sequence[TopicPartition], client_version: int
    ) -> Outcome[ErrorCode]:
        known = self.transactions.get(transactional_id)
        decision = decisions.add_partitions(known, producer, partitions, self._around.now_ms(), client_version)
        if isinstance(decision, ErrorCode):
            return Outcome(decision)
        return self._write(transactional_id, decision, _NONE)

    def verify(
        self, transactional_id: str, producer: ProducerEpoch, partitions: Sequence[TopicPartition]
    ) -> Outcome[dict[TopicPartition, ErrorCode]]:
        return Outcome(decisions.verify(self.transactions.get(transactional_id), producer, partitions))

    def has_committed(self, transactional_id: str, producer: ProducerEpoch, partition: TopicPartition) -> bool:
        """Whether a partition is in the open transaction, and nothing about that is still to be committed."""
        known = self.transactions.get(transactional_id)
        return (
            known is not None
            and known is self.transactions.committed_get(transactional_id)
            and decisions.is_part(known, producer, partition)
        )

    def end(
        self, transactional_id: str, producer: ProducerEpoch, is_commit: bool, client_version: int
    ) -> Outcome[Ended]:
        around = self._around
        known = self.transactions.get(transactional_id)
        decision = decisions.end(
            known, producer, is_commit, around.now_ms(), around.take_producer_id, client_version
        )  # fmt: skip
        if isinstance(decision, ErrorCode):
            says_who = decision is _NONE and known is not None and client_version >= EPOCH_BUMPS_FROM
            return Outcome(Ended(decision, known.producer if says_who and known is not None else NOBODY))
        return self._end(transactional_id, decision, Ended(_NONE, decisions.told_producer(decision)))

    def complete(self, transactional_id: str, marker: Marker) -> Outcome[None]:
        """Every partition has heard of it. Said twice, or too late, it changes nothing."""
        known = self.transactions.get(transactional_id)
        if known is None or known.state not in ENDING:
            return Outcome(None)
        if known.producer != marker.producer or known.updated_ms != marker.decided_ms:
            return Outcome(None)
        return self._write(transactional_id, decisions.complete(known, self._around.now_ms()), None)

    def _end(self, transactional_id: str, ended: Transaction, reply: Initialised) -> Outcome[Initialised]:
        def send() -> None:
            self._send_markers(transactional_id, ended)

        return self._write(transactional_id, ended, reply, send)

    def _write(
        self, transactional_id: str, decided: Transaction, reply: R, committed: Callable[[], None] | None = None
    ) -> Outcome[R]:
        record = record_of(transactional_id, decided, self._around.transaction_version())

        def take_over() -> None:
            self.transactions[transactional_id] = decided

        return Outcome(reply, (record,), committed=committed, take_over=take_over)

    def _send_markers(self, transactional_id: str, ended: Transaction) -> None:
        is_commit = ended.state is TxnState.PREPARE_COMMIT
        marker = Marker(
            ended.producer, is_commit, self._around.coordinator_epoch, ended.client_version, ended.updated_ms
        )  # fmt: skip
        self._around.markers.send(transactional_id, marker, ended.partitions)

    # -- what takes too long

    def _look_for_timeouts_later(self) -> None:
        self._around.timers.set(_TIMEOUTS, self._around.settings().timeout_check_ms, self._abort_overdue)

    def _abort_overdue(self) -> Outcome[None]:
        self._look_for_timeouts_later()
        now_ms = self._around.now_ms()
        overdue = [
            (transactional_id, transaction)
            for transactional_id, transaction in self.transactions.items()
            if transaction.state is TxnState.ONGOING
            and transaction.timeout_ms != FOR_EVER
            and transaction.start_ms + transaction.timeout_ms < now_ms
        ]
        aborted = {}
        for transactional_id, transaction in islice(overdue, _AT_ONCE):
            decision = decisions.abort_and_fence(
                transaction, now_ms, self._around.take_producer_id, self._around.transaction_version()
            )
            if not isinstance(decision, ErrorCode):  # else the next look will find it again
                aborted[transactional_id] = decision
                _log.info(
                    "the transaction of %s is aborted: it is open for longer than the %d ms that its producer set",
                    *(transactional_id, transaction.timeout_ms),
                )

        def send() -> None:
            for transactional_id, ended in aborted.items():
                self._send_markers(transactional_id, ended)

        def take_over() -> None:  # not from the records: the epoch before is not in them
            for transactional_id, ended in aborted.items():
                self.transactions[transactional_id] = ended

        version = self._around.transaction_version()
        records = [record_of(name, ended, version) for name, ended in aborted.items()]
        return Outcome(None, records, committed=send, take_over=take_over)

    def _expire_later(self) -> None:
        self._around.timers.set(_EXPIRY, self._around.settings().expiration_check_ms, self._expire)

    def _expire(self) -> Outcome[None]:
        """Ids that nobody has used for a long time; many of them in several batches."""
        self._expire_later()
        before = self._around.now_ms() - self._around.settings().expiration_ms
        expired = (
            transactional_id
            for transactional_id, transaction in self.transactions.items()
            if transaction.state in AT_REST and transaction.updated_ms <= before
        )
        records = [tombstone(transactional_id) for transactional_id in islice(expired, _AT_ONCE)]
        if len(records) == _AT_ONCE:
            self._around.timers.set(_GOES_ON, 0, self._expire)
        return Outcome(None, records)

    # -- looking

    def describe(self, transactional_id: str) -> Transaction | None:
        return self.transactions.committed_get(transactional_id)

    def committed(self) -> Iterable[tuple[str, Transaction]]:
        return self.transactions.committed_items()

    def list(
        self,
        producer_ids: Collection[int],
        states: Collection[TxnState] | None,
        longer_than_ms: int,
        names: Collection[str] | None,
    ) -> Iterable[Listed]:
        """Those that all filters let through; None and no producer ids are no filter."""
        now_ms = self._around.now_ms()
        for transactional_id, transaction in self.transactions.committed_items():
            if (
                (not producer_ids or transaction.producer_id in producer_ids)
                and (states is None or transaction.state in states)
                and (longer_than_ms < 0 or now_ms - transaction.start_ms > longer_than_ms)
                and (names is None or transactional_id in names)
            ):
                yield Listed(transactional_id, transaction)
