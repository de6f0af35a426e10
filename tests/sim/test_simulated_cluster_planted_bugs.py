"""The checks of a simulated cluster can see: mistakes planted in the production code are found."""

from __future__ import annotations

import pytest
from tests.sim import planted_cluster_bugs as bugs

from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.variation import RAGE_S, Variation

WITHIN = 30
"""Worlds, at most, until a mistake shows. Most show in the first few."""

FOUND_AT_ONCE = (
    bugs.commit_without_the_followers,
    bugs.commit_with_one_follower_of_all,
    bugs.elect_in_the_same_epoch,
    bugs.show_what_is_not_committed,
)
FOUND_LATER = (
    bugs.accept_sequences_twice,
    bugs.believe_that_what_is_sent_is_there,
    bugs.cut_one_record_too_late,
    bugs.elect_whoever_is_there,
    bugs.followers_forget_producers,
    bugs.forget_to_sync_metadata,
    bugs.lead_on_when_another_does,
    bugs.leave_the_last_partition_out_of_snapshots,
    bugs.never_cut_what_the_leader_does_not_have,
    bugs.skip_metadata_now_and_then,
    bugs.trust_who_ended_badly,
    bugs.vote_for_everybody,
    bugs.vote_for_those_who_are_behind,
)
GROUPS = ("records", "classic", "consumers")
FOUND_BY_GROUPS = (
    bugs.answer_before_it_is_committed,
    bugs.coordinate_without_loading,
    bugs.give_what_others_still_have,
    bugs.let_strangers_commit,
)
CHANGES = ("records", "changes")
FOUND_BY_CHANGES = (bugs.let_moves_end_too_early,)
SHORT_S = 20.0
"""As many faults as in other storms, one on top of the other."""
FOUND_IN_SHORT_STORMS = (
    (bugs.believe_all_that_is_in_the_log_after_a_start, ("records",)),
    (bugs.count_on_an_isr_that_is_only_proposed, ("records",)),
    (bugs.forget_whom_it_voted_for, None),
    (bugs.replay_some_committed_offsets_only, GROUPS),
    (bugs.take_a_follower_in_too_early, None),
    (bugs.take_anyone_into_the_isr, None),
    (bugs.take_rotten_records_over, ("records",)),
)


@pytest.mark.parametrize("plant", FOUND_AT_ONCE)
def test_a_planted_bug_is_found(plant: bugs.Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert _is_found()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("plant", "workloads", "storm_s"),
    [
        *((plant, None, RAGE_S) for plant in FOUND_LATER),
        *((plant, GROUPS, RAGE_S) for plant in FOUND_BY_GROUPS),
        *((plant, CHANGES, RAGE_S) for plant in FOUND_BY_CHANGES),
        *((plant, workloads, SHORT_S) for plant, workloads in FOUND_IN_SHORT_STORMS),
    ],
)
def test_a_planted_bug_that_needs_more_time_is_found(
    plant: bugs.Plant, workloads: tuple[str, ...] | None, storm_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what the seeds draw, or in worlds that have what the mistake is about."""
    plant(monkeypatch)
    assert _is_found(workloads, storm_s)


def _is_found(workloads: tuple[str, ...] | None = None, storm_s: float = RAGE_S) -> bool:
    return any(run(seed, Variation(rage_s=storm_s, workloads=workloads)).violations for seed in range(WITHIN))
