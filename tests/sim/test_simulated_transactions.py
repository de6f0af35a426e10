"""Banks in simulated clusters: transfers are whole or nothing, and are booked once; mistakes in that are found."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from tests.sim import planted_transaction_bugs as bugs

from ottla.log.producers import Producers, Refused
from ottla.model.errors import ErrorCode
from ottla.model.names import TRANSACTION_TOPIC
from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.transactions.bank import ENDS_REFUSED
from ottla.sim.cluster.variation import Variation
from ottla.sim.outcome import Outcome

BANK = Variation(workloads=("bank",))
SEEDS = 3
BLOCK = 10
WITHIN = 10
WITHIN_LATER = 30
"""Worlds, at most, until a mistake shows."""

FOUND_AT_ONCE = (
    bugs.read_beyond_open_transactions,
    bugs.tell_nobody_what_was_aborted,
)
FOUND_LATER = (
    bugs.add_partitions_without_telling,
    bugs.answer_before_it_is_committed,
    bugs.commit_what_is_aborted,
    bugs.forget_markers_when_the_coordinator_moves,
    bugs.leave_it_when_a_leader_is_away,
    bugs.let_zombies_go_on,
    bugs.never_abort_what_takes_too_long,
    bugs.offsets_are_lost_with_their_transaction,
    bugs.offsets_count_at_once,
    bugs.take_batches_of_the_past,
)


@cache
def outcome(seed: int) -> Outcome:
    return run(seed, BANK)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_transfers_are_whole_or_nothing(seed: int) -> None:
    assert not outcome(seed).violations, outcome(seed).report()


def test_these_banks_have_seen_what_transactions_go_through() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += outcome(seed).counts
    for what in (
        "transfers: committed", "transfers: not committed", "programs that died", "zombies that woke up",
        "producers fenced", "aborted records left out", "entries booked", "sums of all accounts", "elections",
    ):  # fmt: skip
        assert seen[what] > 0, what


@pytest.mark.parametrize("is_lost", [True, False])
def test_only_a_bank_whose_coordinator_has_lost_its_log_may_hang(
    is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, told = Producers.check_marker, Counter[int]()

    def refuse_for_good(table: Any, producer_id: int, epoch: int, *more: int) -> Refused | None:
        told[producer_id] += 1
        later = told[producer_id] > 5
        return Refused(ErrorCode.invalid_producer_epoch, "") if later else check(table, producer_id, epoch, *more)

    async def some_time(members: Sequence[Member], oracle: Oracle) -> None:
        await asyncio.sleep(5.0)
        for story in list(oracle.partitions.values()) if is_lost else ():
            if story.name.startswith(TRANSACTION_TOPIC):
                story.excuses.append((oracle.now(), story.end))

    monkeypatch.setattr(Producers, "check_marker", refuse_for_good)
    ended = run(1, Variation(workloads=("bank",), until_s=5.0), script=some_time)

    assert ended.counts[ENDS_REFUSED] > 0
    assert ended.counts["banks that hang as their coordinator has lost its log"] == is_lost
    assert ["no progress" in each for each in ended.violations] == ([] if is_lost else [True])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(1000, 1200, BLOCK))
def test_transfers_are_whole_or_nothing_in_many_more_worlds(first: int) -> None:
    for seed in range(first, first + BLOCK):
        ended = run(seed, BANK)
        assert not ended.violations, ended.report()


@pytest.mark.parametrize("plant", FOUND_AT_ONCE)
def test_a_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert _is_found()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("plant", FOUND_LATER)
def test_a_planted_bug_that_needs_more_time_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert _is_found(WITHIN_LATER)


def _is_found(within: int = WITHIN) -> bool:
    return any(run(seed, BANK).violations for seed in range(within))
