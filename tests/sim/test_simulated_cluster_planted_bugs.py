"""The checks of a simulated cluster can see: mistakes planted in the production code are found."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.sim import planted_cluster_bugs as bugs

from ottla.sim.cluster.scenario import run

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
    bugs.answer_before_it_is_committed,
    bugs.believe_that_what_is_sent_is_there,
    bugs.coordinate_without_loading,
    bugs.elect_whoever_is_there,
    bugs.followers_forget_producers,
    bugs.forget_to_sync_metadata,
    bugs.lead_on_when_another_does,
    bugs.let_moves_end_too_early,
    bugs.never_cut_what_the_leader_does_not_have,
    bugs.skip_metadata_now_and_then,
    bugs.vote_for_everybody,
)


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
    assert _is_found()


def _is_found() -> bool:
    return any(run(seed).violations for seed in range(WITHIN))
