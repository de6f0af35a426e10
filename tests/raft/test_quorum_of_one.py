"""A sole voter's decisions, one event at a time."""

import pytest

from ottla.raft.effects import AppendControl, Committed, LeaderChanged, Persist
from ottla.raft.log_view import ControlHistory, EpochStart, LeaderChangeRecord, LogView
from ottla.raft.quorum import Quorum
from ottla.raft.quorum_state import ElectionState
from ottla.raft.roles import Role
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet


def sole_voter(stored: ElectionState | None = None, end_offset: int = 0, last_epoch: int = 0) -> Quorum:
    epochs = [EpochStart(last_epoch, 0)] if last_epoch else []
    log = LogView(ControlHistory(VoterSet.static([1])), end_offset=end_offset, epochs=epochs)
    return Quorum(VoterNode(ReplicaKey(1)), "cluster", log, stored, below=lambda n: 0)


def leader(end_offset: int = 0) -> Quorum:
    quorum = sole_voter(end_offset=end_offset)
    quorum.start(0)
    return quorum


@pytest.mark.parametrize(
    ("stored_epoch", "log_epoch", "expected"),
    [
        pytest.param(None, 0, 1, id="a new node starts in epoch 1"),
        pytest.param(4, 4, 5, id="a restart never goes on in its old epoch"),
        pytest.param(7, 4, 8, id="the file is ahead: elected but nothing appended"),
        pytest.param(2, 9, 10, id="the file is behind: it was lost or restored"),
        pytest.param(None, 3, 4, id="the file is gone"),
    ],
)
def test_each_start_is_a_new_epoch(stored_epoch: int | None, log_epoch: int, expected: int) -> None:
    stored = None if stored_epoch is None else ElectionState(stored_epoch, leader_id=1, voters=(1,))
    quorum = sole_voter(stored, last_epoch=log_epoch)

    quorum.start(0)

    assert (quorum.epoch, quorum.role) == (expected, Role.LEADER)


def test_the_leadership_is_persisted_before_the_log_says_so() -> None:
    effects = sole_voter(ElectionState(0, voters=(1,))).start(0)

    assert effects == [
        LeaderChanged(-1, 1),
        Persist(ElectionState(1, leader_id=1, voted_id=-1, voters=(1,))),
        LeaderChanged(1, 1),
        AppendControl(0, 1, (LeaderChangeRecord(1, (1,), (1,)),)),
    ]


def test_nobody_has_to_wake_a_sole_voter() -> None:
    assert leader().deadline > 1 << 60


def test_nothing_is_committed_before_it_is_flushed() -> None:
    quorum = leader()

    assert quorum.appended(0, 3) == []
    assert quorum.high_watermark == -1

    assert quorum.flushed(0, 3, quorum.log_generation) == [Committed(3)]
    assert quorum.high_watermark == 3


def test_records_of_earlier_epochs_are_committed_with_the_first_of_the_new_one() -> None:
    quorum = leader(end_offset=10)

    assert quorum.flushed(0, 10, quorum.log_generation) == []
    assert quorum.flushed(0, 11, quorum.log_generation) == [Committed(11)]


def test_the_high_watermark_never_goes_back() -> None:
    quorum = leader()
    quorum.appended(0, 5)
    quorum.flushed(0, 5, quorum.log_generation)

    assert quorum.flushed(0, 3, quorum.log_generation) == []
    assert quorum.high_watermark == 5


def test_who_has_failed_neither_appends_nor_commits() -> None:
    quorum = leader()
    quorum.fail()

    assert quorum.flushed(0, 1, quorum.log_generation) == []
    with pytest.raises(ValueError, match="resigned"):
        quorum.appended(0, 2)
