"""The quorum's decisions, one event at a time."""

import pytest

from ottla.raft.quorum import BecomeLeader, Committed, Persist, Quorum, Role
from ottla.raft.quorum_state import ElectionState


def sole_voter(stored: ElectionState | None = None, end_offset: int = 0, last_epoch: int = 0) -> Quorum:
    return Quorum(1, (1,), stored, end_offset, last_epoch)


def leader(end_offset: int = 0) -> Quorum:
    quorum = sole_voter(end_offset=end_offset)
    quorum.start()
    quorum.persisted(quorum.state)
    return quorum


@pytest.mark.parametrize(
    ("stored_epoch", "log_epoch", "expected"),
    [
        pytest.param(None, 0, 1, id="a new node starts in epoch 1"),
        pytest.param(4, 4, 5, id="a restart never goes on in its old epoch"),
        pytest.param(7, 4, 8, id="the file is ahead: voted but nothing appended"),
        pytest.param(2, 9, 10, id="the file is behind: it was lost or restored"),
        pytest.param(None, 3, 4, id="the file is gone"),
    ],
)
def test_each_start_is_a_new_epoch(stored_epoch: int | None, log_epoch: int, expected: int) -> None:
    stored = None if stored_epoch is None else ElectionState(stored_epoch, leader_id=1, voters=(1,))
    quorum = sole_voter(stored, last_epoch=log_epoch)

    effects = quorum.start()

    assert effects == [Persist(ElectionState(expected, leader_id=-1, voted_id=1, voters=(1,)))]


def test_a_vote_counts_only_once_it_is_persisted() -> None:
    quorum = sole_voter()

    quorum.start()
    before = quorum.role
    effects = quorum.persisted(quorum.state)

    assert before is Role.CANDIDATE
    assert quorum.role is Role.LEADER
    assert effects == [
        Persist(ElectionState(1, leader_id=1, voted_id=-1, voters=(1,))),
        BecomeLeader(1, (1,), (1,)),
    ]


def test_a_late_word_of_an_older_state_elects_nobody() -> None:
    quorum = sole_voter()
    first = quorum.start()[0]
    assert isinstance(first, Persist)
    quorum.start()

    assert quorum.persisted(first.state) == []
    assert quorum.role is Role.CANDIDATE


def test_nothing_is_committed_before_it_is_flushed() -> None:
    quorum = leader()

    quorum.appended(1)
    assert quorum.high_watermark == -1

    assert quorum.flushed(1, 1) == [Committed(1)]
    assert quorum.high_watermark == 1


def test_records_of_earlier_epochs_are_committed_with_the_first_of_the_new_one() -> None:
    quorum = leader(end_offset=10)

    assert quorum.flushed(1, 10) == []
    quorum.appended(11)
    assert quorum.flushed(1, 11) == [Committed(11)]


def test_the_high_watermark_never_goes_back() -> None:
    quorum = leader()
    quorum.appended(5)
    quorum.flushed(1, 5)

    assert quorum.flushed(1, 3) == []
    assert quorum.high_watermark == 5


def test_who_has_resigned_neither_appends_nor_commits() -> None:
    quorum = leader()
    quorum.appended(1)
    quorum.resign()

    assert quorum.flushed(1, 1) == []
    with pytest.raises(ValueError, match="resigned"):
        quorum.appended(2)


def test_more_than_one_voter_is_refused_until_that_is_built() -> None:
    with pytest.raises(ValueError, match="only voter"):
        Quorum(1, (1, 2, 3), None, 0, 0)
