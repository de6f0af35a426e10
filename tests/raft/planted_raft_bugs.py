"""Mistakes in the raft core, a line or two each, that the checks of a simulated quorum must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.raft import elections, membership, replication
from ottla.raft.effects import Effect, Persist, Reply
from ottla.raft.leadership import Leadership
from ottla.raft.log_view import LogView, OffsetAndEpoch
from ottla.raft.messages import VoteRequest
from ottla.raft.quorum import Quorum
from ottla.raft.replica import Replica
from ottla.raft.roles import Unattached
from ottla.raft.tally import Tally
from ottla.raft.voters import VoterSet

Plant = Callable[[pytest.MonkeyPatch], None]


def vote_twice_in_an_epoch(patch: pytest.MonkeyPatch) -> None:
    may_grant = elections._may_grant

    def forgetful(replica: Replica, now: int, request: VoteRequest) -> bool:
        voted, replica.voted = replica.voted, None
        try:
            return may_grant(replica, now, request)
        finally:
            replica.voted = voted

    patch.setattr(elections, "_may_grant", forgetful)


def forget_the_vote_in_a_restart(patch: pytest.MonkeyPatch) -> None:
    initialise = Replica.initialise

    def forgetful(self: Replica, now: int) -> None:
        initialise(self, now)
        if isinstance(self.state, Unattached):
            self.voted = None

    patch.setattr(Replica, "initialise", forgetful)


def vote_for_those_with_less_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(elections, "_is_behind", lambda log, other: False)


def tell_of_a_vote_before_it_is_persisted(patch: pytest.MonkeyPatch) -> None:
    settle = Quorum._settle

    def hasty(self: Quorum, now: int) -> list[Effect]:
        return sorted(settle(self, now), key=lambda effect: isinstance(effect, Persist) - isinstance(effect, Reply))

    patch.setattr(Quorum, "_settle", hasty)


def win_with_half_of_the_votes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tally, "is_won", property(lambda tally: tally._granted >= max(tally._voters.majority - 1, 1)))


def lead_the_same_epoch_again(patch: pytest.MonkeyPatch) -> None:
    persist = Replica._persist

    def lazy(self: Replica) -> None:
        if not isinstance(self.state, Leadership):
            persist(self)

    patch.setattr(Replica, "_persist", lazy)


def commit_what_one_replica_too_few_has(patch: pytest.MonkeyPatch) -> None:
    def offset(self: Leadership) -> int:
        ends = sorted((progress.end_offset for progress in self.voters.values()), reverse=True)
        return ends[max(len(ends) // 2 - 1, 0)]

    patch.setattr(Leadership, "majority_offset", offset)


def commit_an_old_epoch_by_counting(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Replica) -> bool:
        assert isinstance(self.state, Leadership)
        offset = self.state.majority_offset()
        if offset <= self.high_watermark:
            return False
        self.advance(offset)
        return True

    patch.setattr(Replica, "advance_as_leader", advance)


def let_the_high_watermark_go_back(patch: pytest.MonkeyPatch) -> None:
    def advance(self: Replica) -> bool:
        assert isinstance(self.state, Leadership)
        offset = self.state.majority_offset()
        if offset <= self.state.epoch_start or offset == self.high_watermark:
            return False
        self.advance(offset)
        return True

    patch.setattr(Replica, "advance_as_leader", advance)


def fetch_before_the_log_is_synced(patch: pytest.MonkeyPatch) -> None:
    append = replication._append

    def hasty(replica: Replica, batches: Any) -> None:
        append(replica, batches)
        replica.log.durable_offset = replica.log.end_offset

    patch.setattr(replication, "_append", hasty)


def count_the_leader_before_it_synced(patch: pytest.MonkeyPatch) -> None:
    note = replication.note_progress

    def hasty(replica: Replica, now: int) -> None:
        assert isinstance(replica.state, Leadership)
        replica.state.own.end_offset = replica.log.end_offset
        note(replica, now)

    patch.setattr(replication, "note_progress", hasty)


def truncate_too_little(patch: pytest.MonkeyPatch) -> None:
    def common_end(self: LogView, diverging: OffsetAndEpoch) -> int:
        return self.end_of_epoch(diverging.epoch).offset

    patch.setattr(LogView, "common_end", common_end)


def forget_to_look_for_divergence(patch: pytest.MonkeyPatch) -> None:
    fit = LogView.fit

    def trusting(self: LogView, offset: int, epoch: int) -> Any:
        found = fit(self, offset, epoch)
        if found[0].value == "diverging" and offset <= self.end_offset:
            return type(found[0]).VALID, OffsetAndEpoch(offset, epoch)
        return found

    patch.setattr(LogView, "fit", trusting)


def count_the_voters_of_before(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leadership, "change_voters", lambda self, voters: None)


def change_voters_before_the_last_change_is_committed(patch: pytest.MonkeyPatch) -> None:
    def careless(replica: Replica, leadership: Leadership, now: int, doing: str) -> VoterSet:
        return replica.voters

    patch.setattr(membership, "_committed_voters", careless)


def keep_the_voters_of_a_truncated_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("ottla.raft.log_view.ControlHistory.truncate", lambda self, end: None)


def forget_the_epoch_of_a_snapshot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogView, "last_epoch", property(lambda log: log.epochs[-1].epoch if log.epochs else 0))


def leave_the_only_one_with_the_change_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Replica, "may_stand", property(lambda self: self.is_voter))
