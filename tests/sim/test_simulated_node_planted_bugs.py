"""The checkers of a simulated node can see: mistakes planted in the production code are found."""

from __future__ import annotations

import pytest
from tests.sim import planted_bugs as bugs

from ottla.sim.scenario import run

WITHIN = 100
"""Worlds, at most, until a mistake shows."""

FOUND_SOON = (
    bugs.acknowledge_before_the_flush,
    bugs.forget_producers_in_recovery,
    bugs.forget_to_sync_metadata,
    bugs.cut_one_batch_too_many,
    bugs.delete_one_segment_too_many,
    bugs.accept_sequences_twice,
    bugs.answer_before_metadata_is_committed,
    bugs.give_producer_ids_again,
    bugs.find_one_place_too_far,
    bugs.stop_without_a_sync,
    bugs.coordinate_without_loading,
)
FOUND_LATER = (
    bugs.checkpoint_what_is_not_flushed,
    bugs.forget_to_sync_names,
    bugs.keep_the_clean_shutdown_mark,
    bugs.leave_producers_out_of_snapshots,
    bugs.let_the_high_watermark_go_back,
    bugs.recognise_only_the_last_batch,
    bugs.recover_nothing_beyond_the_recovery_point,
    bugs.show_what_is_not_committed,
    bugs.skip_checksums_in_recovery,
)


@pytest.mark.parametrize("plant", FOUND_SOON)
def test_a_planted_bug_is_found(plant: bugs.Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert _is_found()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", FOUND_LATER)
def test_a_planted_bug_that_needs_more_luck_is_found(plant: bugs.Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert _is_found()


def _is_found() -> bool:
    return any(run(seed).violations for seed in range(WITHIN))
