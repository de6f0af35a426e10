"""Mistakes in the transactional code, a line or two each, that the checks of a simulated bank must find."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.txn_markers import TxnMarkers
from ottla.broker.txn_partitions import TxnPartitions
from ottla.coordinator.group.offset_table import OffsetTable
from ottla.coordinator.machine import Outcome
from ottla.coordinator.shard import Shard
from ottla.coordinator.txn import decisions
from ottla.coordinator.txn.machine import TxnMachine
from ottla.coordinator.txn.transaction import Transaction, TxnState
from ottla.log.partition_log import PartitionLog
from ottla.log.producers import Producers
from ottla.model.errors import ErrorCode


def read_beyond_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "first_unstable_offset", lambda self: None)


def tell_nobody_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "aborted_between", lambda self, *args: [])


def forget_markers_when_the_coordinator_moves(patch: pytest.MonkeyPatch) -> None:
    def started(self: TxnMachine) -> None:
        self._look_for_timeouts_later()
        self._expire_later()

    patch.setattr(TxnMachine, "started", started)


def leave_it_when_a_leader_is_away(patch: pytest.MonkeyPatch) -> None:
    """Markers are not sent again: the partition counts as told."""

    def forget(self: TxnMarkers, ending: Any, keys: list[Any]) -> None:
        for key in keys:
            ending.missing.pop(key, None)

    patch.setattr(TxnMarkers, "_again", forget)


def never_abort_what_takes_too_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TxnMachine, "_look_for_timeouts_later", lambda self: None)


def let_zombies_go_on(patch: pytest.MonkeyPatch) -> None:
    """A new program under the same id gets the epoch of the one before it."""
    next_epoch = decisions._next_epoch

    def same(known: Transaction, *args: Any) -> Any:
        found = next_epoch(known, *args)
        return found._replace(epoch=max(known.epoch, 0)) if isinstance(found, Transaction) else found

    patch.setattr(decisions, "_next_epoch", same)


def commit_what_is_aborted(patch: pytest.MonkeyPatch) -> None:
    """An open transaction of a program that is gone is committed instead."""
    abort_and_fence = decisions.abort_and_fence

    def commit(*args: Any) -> Any:
        found = abort_and_fence(*args)
        return found._replace(state=TxnState.PREPARE_COMMIT) if isinstance(found, Transaction) else found

    patch.setattr(decisions, "abort_and_fence", commit)


def offsets_count_at_once(patch: pytest.MonkeyPatch) -> None:
    """Offsets that a transaction commits are not forgotten when it is aborted."""
    end = OffsetTable.end_transaction

    def committed(self: OffsetTable, producer_id: int, *, is_commit: bool) -> Any:
        return end(self, producer_id, is_commit=True)

    patch.setattr(OffsetTable, "end_transaction", committed)


def offsets_are_lost_with_their_transaction(patch: pytest.MonkeyPatch) -> None:
    """A marker in `__consumer_offsets` is written, and what it ends is forgotten instead of taken over."""
    end = OffsetTable.end_transaction

    def forgotten(self: OffsetTable, producer_id: int, *, is_commit: bool) -> Any:
        return end(self, producer_id, is_commit=False)

    patch.setattr(OffsetTable, "end_transaction", forgotten)


def take_batches_of_the_past(patch: pytest.MonkeyPatch) -> None:
    """Batches of an epoch that is over are appended: what a zombie writes joins a later transaction, or hangs."""
    patch.setattr(Producers, "check_verified", lambda self, header: None)
    patch.setattr(Producers, "_old_epoch", lambda self, *args: None)


def add_partitions_without_telling(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks the coordinator: partitions of transactions' second version get no markers."""

    async def ask(self: TxnPartitions, question: Any) -> None:
        question.answer(dict.fromkeys(question.partitions, ErrorCode.none))

    patch.setattr(TxnPartitions, "ask", ask)
    patch.setattr(TxnPartitions, "_is_coordinated_here", lambda self, transactional_id: False)


def answer_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    """The transaction's coordinator tells of decisions that only its own log has."""

    def at_once(self: Shard[Any], outcome: Outcome[Any], tell: Any) -> None:
        if outcome.committed is not None:
            outcome.committed()
        tell(outcome.reply, None)

    patch.setattr(Shard, "_await_commit", at_once)
