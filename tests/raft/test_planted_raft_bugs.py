"""The checks of a simulated quorum can see: each of these mistakes in the core is found within so many storms."""

import pytest
from tests.raft import planted_raft_bugs as bugs

from ottla.sim.raft.checks import Checks, Violation
from ottla.sim.raft.storm import Storm, run

USUAL = Storm()
YOUNG_LEADERS = Storm(duration_ms=12_000, faults=12, down_for_ms=300, leaders_die_young=0.7, voters=(5, 3), dynamic=0.0)
CHANGES = Storm(duration_ms=20_000, faults=40, down_for_ms=600, leaders_die_young=0.3, voters=(3, 4, 5, 2), dynamic=1.0)
STRANDED = Storm(duration_ms=30_000, faults=6, down_for_ms=600, strands_leaders=True, voters=(3, 3, 4), dynamic=1.0)


@pytest.mark.parametrize(
    ("plant", "storm", "first_seed", "seeds"),
    [
        pytest.param(plant, storm, first_seed, seeds, id=plant.__name__)
        for plant, storm, first_seed, seeds in [
            (bugs.vote_twice_in_an_epoch, USUAL, 0, 10),
            (bugs.forget_the_vote_in_a_restart, YOUNG_LEADERS, 95, 20),
            (bugs.vote_for_those_with_less_log, USUAL, 0, 30),
            (bugs.tell_of_a_vote_before_it_is_persisted, USUAL, 0, 5),
            (bugs.win_with_half_of_the_votes, USUAL, 0, 10),
            (bugs.lead_the_same_epoch_again, USUAL, 0, 30),
            (bugs.commit_what_one_replica_too_few_has, USUAL, 0, 5),
            (bugs.let_the_high_watermark_go_back, USUAL, 0, 10),
            (bugs.fetch_before_the_log_is_synced, USUAL, 0, 5),
            (bugs.count_the_leader_before_it_synced, USUAL, 0, 5),
            (bugs.truncate_too_little, USUAL, 0, 30),
            (bugs.forget_to_look_for_divergence, USUAL, 0, 30),
            (bugs.count_the_voters_of_before, USUAL, 0, 10),
            (bugs.forget_the_epoch_of_a_snapshot, CHANGES, 0, 10),
            (bugs.keep_the_voters_of_a_truncated_log, STRANDED, 0, 10),
            # These take three or four coincidences. Hundreds of storms from seed 0 on find them: too many.
            (bugs.commit_an_old_epoch_by_counting, YOUNG_LEADERS, 510, 20),
            (bugs.change_voters_before_the_last_change_is_committed, CHANGES, 60, 20),
            (bugs.leave_the_only_one_with_the_change_out, CHANGES, 195, 20),
        ]
    ],
)
def test_a_planted_bug_is_found(
    plant: bugs.Plant, storm: Storm, first_seed: int, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    with pytest.raises(Violation):
        all(run(seed, storm) for seed in range(first_seed, first_seed + seeds))


def test_voters_of_a_truncated_log_are_found_by_what_they_elect(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not only by what a snapshot says of them."""
    bugs.keep_the_voters_of_a_truncated_log(monkeypatch)
    monkeypatch.setattr(Checks, "takes_snapshot", lambda *_: None)

    with pytest.raises(Violation):
        all(run(seed, STRANDED) for seed in range(100))


@pytest.mark.parametrize(
    "storm", [YOUNG_LEADERS, CHANGES, STRANDED], ids=["leaders die young", "voters change", "stranded leaders"]
)
def test_without_a_bug_nothing_is_found(storm: Storm) -> None:
    for seed in range(60):
        run(seed, storm)
