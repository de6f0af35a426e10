"""What follows from a request for a transactional id, by Kafka's rules: the next state, or the error.

Pure functions: nothing is written here. A producer is told PRODUCER_FENCED if another one has taken its place; the API
makes INVALID_PRODUCER_EPOCH of it for clients that do not know that.

While markers are being written, whoever asks is to come again, before it is looked at who that is: the producer may
have been told its next epoch already, or its next id, which count only when the transaction is over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from ottla.coordinator.txn.transaction import (
    AT_REST,
    ENDING,
    EPOCH_BUMPS_FROM,
    MAX_EPOCH,
    NOBODY,
    ProducerEpoch,
    Transaction,
    TxnState,
)
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

_log = logging.getLogger("ottla.coordinator")

Decision = Transaction | ErrorCode
TakeId = Callable[[], int | None]
"""A producer id that was never used, or None while the next ones are being asked for."""
NO_ID_YET: Final = ErrorCode.coordinator_load_in_progress
"""What Kafka tells who needs a new producer id when there is none at hand."""


def initialise(
    known: Transaction | None,
    timeout_ms: int,
    expected: ProducerEpoch | None,
    now_ms: int,
    take_id: TakeId,
    server_version: int,
) -> Decision:
    """InitProducerId. An open transaction is aborted first: then the next state is PrepareAbort."""
    if known is None:
        producer_id = take_id()
        if producer_id is None:
            return NO_ID_YET
        known = Transaction(producer_id)
    if known.state in ENDING:
        return ErrorCode.concurrent_transactions
    if expected is not None and not _may_go_on(known, expected):
        return ErrorCode.producer_fenced
    if known.state is TxnState.ONGOING:
        return abort_and_fence(known, now_ms, take_id, server_version)
    if known.is_exhausted and (expected is None or expected.epoch == known.epoch):
        producer_id = take_id()
        if producer_id is None:
            return NO_ID_YET
        last = known.epoch if expected is not None else NO_EPOCH
        return _begun(known, ProducerEpoch(producer_id, 0), last, timeout_ms, now_ms)
    return _next_epoch(known, timeout_ms, expected, now_ms)


def _may_go_on(known: Transaction, expected: ProducerEpoch) -> bool:
    """KIP-360: a producer that continues after an error says who it was. It may repeat itself over a change of ids."""
    return (
        known.epoch == NO_EPOCH
        or expected.producer_id == known.producer_id
        or (expected.producer_id == known.previous_producer_id and expected.epoch >= MAX_EPOCH - 1)
    )


def _next_epoch(known: Transaction, timeout_ms: int, expected: ProducerEpoch | None, now_ms: int) -> Decision:
    if known.is_exhausted:
        return ErrorCode.unknown_server_error  # what Kafka makes of an epoch that is not the last of an exhausted id
    bumped = ProducerEpoch(known.producer_id, known.epoch + 1)
    if expected is None:
        return _begun(known, bumped, NO_EPOCH, timeout_ms, now_ms)
    if known.epoch in (NO_EPOCH, expected.epoch):
        return _begun(known, bumped, known.epoch, timeout_ms, now_ms)
    if expected.epoch == known.last_epoch:  # it repeats a request that was carried out: the same answer again
        return _begun(known, known.producer, known.last_epoch, timeout_ms, now_ms)
    return ErrorCode.producer_fenced


def _begun(known: Transaction, producer: ProducerEpoch, last_epoch: int, timeout_ms: int, now_ms: int) -> Transaction:
    return known._replace(
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        previous_producer_id=known.producer_id,
        last_epoch=last_epoch,
        timeout_ms=timeout_ms,
        state=TxnState.EMPTY,
        partitions=(),
        start_ms=NO_TIMESTAMP,
        updated_ms=now_ms,
    )


# -- what belongs to it


def add_partitions(
    known: Transaction | None,
    producer: ProducerEpoch,
    partitions: Sequence[TopicPartition],
    now_ms: int,
    client_version: int,
) -> Decision:
    """`ErrorCode.none` if they are in it already."""
    if known is None:
        return ErrorCode.invalid_producer_id_mapping
    if known.state in ENDING:
        return ErrorCode.concurrent_transactions
    if known.producer_id != producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if known.epoch != producer.epoch:
        return ErrorCode.producer_fenced
    is_open = known.state is TxnState.ONGOING
    together = dict.fromkeys((*known.partitions, *partitions))
    if is_open and len(together) == len(known.partitions):
        return ErrorCode.none
    return Transaction(
        known.producer_id,
        known.epoch,
        known.timeout_ms,
        TxnState.ONGOING,
        tuple(together),
        known.start_ms if is_open else now_ms,
        now_ms,
        client_version,
        known.producer_id,
        known.next_producer_id,
        known.last_epoch,
    )


def verify(
    known: Transaction | None, producer: ProducerEpoch, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Whether partitions are in the transaction that a producer has open (KIP-890).

    Asked for clients of the first version only, which keep their epoch: it is looked at who they are, always.
    """
    if known is None or known.producer_id != producer.producer_id:
        code = ErrorCode.invalid_producer_id_mapping
    elif known.epoch != producer.epoch:
        code = ErrorCode.producer_fenced
    elif known.state in ENDING:
        code = ErrorCode.concurrent_transactions
    else:
        there = set(known.partitions)
        return {each: ErrorCode.none if each in there else ErrorCode.transaction_abortable for each in partitions}
    return dict.fromkeys(partitions, code)


def is_part(known: Transaction, producer: ProducerEpoch, partition: TopicPartition) -> bool:
    """What `verify` tells with NONE."""
    return known.producer == producer and known.state not in ENDING and partition in known.partitions


# -- its end


def end(
    known: Transaction | None,
    producer: ProducerEpoch,
    is_commit: bool,
    now_ms: int,
    take_id: TakeId,
    client_version: int,
) -> Decision:
    """EndTxn of a client. `ErrorCode.none` if it has been carried out before."""
    if known is None:
        return ErrorCode.invalid_producer_id_mapping
    if client_version < EPOCH_BUMPS_FROM:
        return _end_by_state(known, producer, is_commit, now_ms)
    return _end_by_epoch(known, producer, is_commit, now_ms, take_id, client_version)


def _end_by_state(known: Transaction, producer: ProducerEpoch, is_commit: bool, now_ms: int) -> Decision:
    """Clients of the first version: the same epoch for many transactions."""
    if known.producer_id != producer.producer_id:
        return ErrorCode.invalid_producer_id_mapping
    if known.epoch != producer.epoch:
        return ErrorCode.producer_fenced
    if known.state is TxnState.ONGOING:
        return _ended(known, is_commit, now_ms, 0)
    if known.state in ENDING:
        return ErrorCode.concurrent_transactions  # whether it is to end as it does, is told when it has ended
    if known.state is (TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT):
        return ErrorCode.none
    return ErrorCode.invalid_txn_state


def _end_by_epoch(
    known: Transaction, producer: ProducerEpoch, is_commit: bool, now_ms: int, take_id: TakeId, client_version: int
) -> Decision:
    """Each transaction has its epoch, so a request that comes late or twice is known by it (KIP-890).

    | state          | abort: again | current    | commit: again | current |
    |----------------|--------------|------------|---------------|---------|
    | Empty          | fenced       | next epoch | fenced        | invalid |
    | CompleteAbort  | none         | next epoch | invalid       | invalid |
    | CompleteCommit | invalid      | next epoch | none          | invalid |
    """
    state = known.state
    over_ids = (
        known.previous_producer_id == producer.producer_id and producer.epoch == MAX_EPOCH - 1 and known.epoch == 0
    )
    again = known.epoch == producer.epoch + 1
    current = known.epoch == producer.epoch
    if state in ENDING:
        return ErrorCode.concurrent_transactions
    if known.producer_id != producer.producer_id and not over_ids:
        return ErrorCode.invalid_producer_id_mapping
    if state in (TxnState.ONGOING, TxnState.EMPTY):
        if not current:
            return ErrorCode.producer_fenced
    elif not (again or over_ids or current):
        return ErrorCode.producer_fenced
    elif again or over_ids:
        is_same = state is (TxnState.COMPLETE_COMMIT if is_commit else TxnState.COMPLETE_ABORT)
        return ErrorCode.none if is_same else ErrorCode.invalid_txn_state
    if state in AT_REST and is_commit:
        return ErrorCode.invalid_txn_state
    return _ended_with_new_epoch(known, is_commit, now_ms, take_id, client_version)


def abort_and_fence(known: Transaction, now_ms: int, take_id: TakeId, server_version: int) -> Decision:
    """An open transaction whose producer is not heard any more: it took too long, or another takes its place."""
    if server_version >= EPOCH_BUMPS_FROM:
        return _ended_with_new_epoch(known, False, now_ms, take_id, server_version)
    epoch = min(known.epoch + 1, MAX_EPOCH)
    return _ended(known._replace(epoch=epoch, last_epoch=NO_EPOCH), False, now_ms, 0)


def _ended_with_new_epoch(
    known: Transaction, is_commit: bool, now_ms: int, take_id: TakeId, client_version: int
) -> Decision:
    next_id = NO_PRODUCER_ID
    if known.is_exhausted:
        taken = take_id()
        if taken is None:
            return NO_ID_YET
        next_id = taken
    epoch = known.epoch + 1
    if epoch > MAX_EPOCH:
        if is_commit:
            return ErrorCode.unknown_server_error
        _log.error("producer %d has the last of all epochs, which is never given to one", known.producer_id)
        epoch = MAX_EPOCH
    ended = _ended(known, is_commit, now_ms, client_version, next_id)
    start_ms = now_ms if known.state in AT_REST else known.start_ms
    return ended._replace(epoch=epoch, last_epoch=known.epoch, start_ms=start_ms)


def _ended(
    known: Transaction, is_commit: bool, now_ms: int, client_version: int, next_id: int = NO_PRODUCER_ID
) -> Transaction:
    return Transaction(
        known.producer_id,
        known.epoch,
        known.timeout_ms,
        TxnState.PREPARE_COMMIT if is_commit else TxnState.PREPARE_ABORT,
        known.partitions,
        known.start_ms,
        now_ms,
        client_version,
        known.producer_id,
        next_id,
        known.last_epoch,
    )


def complete(known: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker."""
    after = known.after_markers
    return known._replace(
        producer_id=after.producer_id,
        epoch=after.epoch,
        state=TxnState.COMPLETE_COMMIT if known.state is TxnState.PREPARE_COMMIT else TxnState.COMPLETE_ABORT,
        partitions=(),
        previous_producer_id=known.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        updated_ms=now_ms,
    )


def told_producer(ended: Transaction) -> ProducerEpoch:
    """Who a client is from now on, as EndTxn tells it: only with transactions' second version."""
    return ended.after_markers if ended.client_version >= EPOCH_BUMPS_FROM else NOBODY
