"""Vote, BeginQuorumEpoch and EndQuorumEpoch: what a replica answers, and what it makes of the answers."""

from __future__ import annotations

from ottla.model.errors import ErrorCode
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    Leader,
    VoteRequest,
    VoteResponse,
)
from ottla.raft.quorum_state import NOBODY
from ottla.raft.replica import Replica
from ottla.raft.roles import Candidate, Follower, Prospective, Resigned, Role, Unattached
from ottla.raft.voters import ReplicaKey


def is_of_cluster(replica: Replica, cluster_id: str | None) -> bool:
    return cluster_id is None or cluster_id == replica.cluster_id


def on_vote(replica: Replica, now: int, request: VoteRequest) -> VoteResponse:
    if not is_of_cluster(replica, request.cluster_id):
        return VoteResponse(error=ErrorCode.inconsistent_cluster_id)
    # A candidate's epoch is new, so nothing can be logged in it; a prospective still is in that of its last leader.
    last_possible = request.epoch if request.pre_vote else request.epoch - 1
    if request.last.offset < 0 or not 0 <= request.last.epoch <= last_possible:
        return VoteResponse(replica.leader, partition_error=ErrorCode.invalid_request)
    refused = _of_establishing(replica, request.replica.id, request.epoch)
    if refused is not None:
        return VoteResponse(replica.leader, partition_error=refused)
    if request.epoch > replica.epoch:
        replica.become_unattached(now, request.epoch)
    if request.voter is not None and not request.voter.covers(replica.me):
        return VoteResponse(replica.leader, partition_error=ErrorCode.invalid_voter_key)
    granted = _may_grant(replica, now, request)
    if granted and not request.pre_vote and replica.voted is None:
        replica.vote_for(now, request.replica)
    return VoteResponse(replica.leader, granted)


def _may_grant(replica: Replica, now: int, request: VoteRequest) -> bool:
    is_up_to_date = not _is_behind(request.last, replica.log.end)
    match replica.state:
        case Unattached() | Prospective() if request.pre_vote:
            return is_up_to_date
        case Unattached() | Prospective() if replica.voted is not None:
            return replica.voted.covers(request.replica)
        case Unattached() | Prospective():
            return replica.leader_id == NOBODY and is_up_to_date
        case Follower(fetch_timeout_at=timeout_at, has_fetched=has_fetched):
            # Who may not stand himself, by what his log says of the voters, stays a follower when the leader is gone.
            # By a longer log his vote may be the one that is missing.
            return request.pre_vote and (not has_fetched or now >= timeout_at) and is_up_to_date
        case Candidate() | Resigned():
            return request.pre_vote and is_up_to_date
    return False


def _is_behind(log: OffsetAndEpoch, other: OffsetAndEpoch) -> bool:
    return (log.epoch, log.offset) < (other.epoch, other.offset)


def on_vote_response(replica: Replica, now: int, voter_id: int, response: VoteResponse) -> bool:
    """False: leave this node alone for a moment."""
    if response.error is ErrorCode.unsupported_version and replica.role is Role.PROSPECTIVE:
        replica.become_candidate(now)  # somebody does not know pre-votes: ask for real ones
        return True
    if response.error is not ErrorCode.none:
        return False
    handled = on_any_response(replica, now, response.partition_error, response.leader)
    if handled is not None:
        return handled
    if response.partition_error is not ErrorCode.none:
        return False
    if isinstance(replica.state, Prospective | Candidate):
        replica.state.tally.record(voter_id, response.granted)
        replica.count_votes(now)
    return True


def on_begin_epoch(replica: Replica, now: int, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
    if not is_of_cluster(replica, request.cluster_id):
        return BeginQuorumEpochResponse(error=ErrorCode.inconsistent_cluster_id)
    refused = _of_establishing(replica, request.leader.id, request.leader.epoch)
    if refused is None and not replica.hear_of(now, request.leader):
        refused = ErrorCode.invalid_request
    if refused is None and request.voter is not None and not request.voter.covers(replica.me):
        refused = ErrorCode.invalid_voter_key
    return BeginQuorumEpochResponse(replica.leader, refused or ErrorCode.none)


def on_begin_epoch_response(replica: Replica, now: int, response: BeginQuorumEpochResponse) -> bool:
    if response.error is not ErrorCode.none:
        return False
    handled = on_any_response(replica, now, response.partition_error, response.leader)
    return response.partition_error is ErrorCode.none if handled is None else handled


def on_end_epoch(replica: Replica, now: int, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
    if not is_of_cluster(replica, request.cluster_id):
        return EndQuorumEpochResponse(error=ErrorCode.inconsistent_cluster_id)
    refused = _of_establishing(replica, request.leader.id, request.leader.epoch)
    if refused is None and not replica.hear_of(now, request.leader):
        refused = ErrorCode.invalid_request
    if refused is not None:
        return EndQuorumEpochResponse(replica.leader, refused)
    if isinstance(replica.state, Follower) and replica.leader_id == request.leader.id:
        replica.state.fetch_timeout_at = now + _succession_delay(replica, request.successors)
    return EndQuorumEpochResponse(replica.leader)


def _succession_delay(replica: Replica, successors: tuple[ReplicaKey, ...]) -> int:
    """The first in line stands at once; each of the others waits longer, so that they do not compete."""
    longest = replica.settings.election_backoff_max_ms
    position = next((i for i, key in enumerate(successors) if key.covers(replica.me)), len(successors))
    if position == 0 and successors:
        return 0
    if position >= len(successors):
        return longest if successors else 0
    return min(longest, (longest >> (len(successors) - 1)) << (position - 1))


def on_end_epoch_response(replica: Replica, now: int, voter_id: int, response: EndQuorumEpochResponse) -> bool:
    if response.error is not ErrorCode.none:
        return False
    handled = on_any_response(replica, now, response.partition_error, response.leader)
    if handled is not None:
        return handled
    if response.partition_error is not ErrorCode.none:
        return False
    if isinstance(replica.state, Resigned):
        replica.state.unacknowledged.pop(voter_id, None)
    return True


def _of_establishing(replica: Replica, sender_id: int, epoch: int) -> ErrorCode | None:
    if epoch < replica.epoch:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.invalid_request if sender_id < 0 else None


def refusal_by_leader(replica: Replica, epoch: int) -> ErrorCode | None:
    """Of a request that only the leader of its epoch can answer."""
    if epoch < replica.epoch:
        return ErrorCode.fenced_leader_epoch
    if epoch > replica.epoch:
        return ErrorCode.unknown_leader_epoch
    if replica.role is not Role.LEADER:
        return ErrorCode.not_leader_or_follower
    return ErrorCode.broker_not_available if replica.is_shutting_down else None


def on_any_response(replica: Replica, now: int, error: ErrorCode, leader: Leader) -> bool | None:
    """What all responses have in common. None: there is more in it for the one who asked.

    One that brings no news is followed by a backoff, else two replicas without a leader would ask each other all day.
    """
    if leader.epoch < replica.epoch or error is ErrorCode.unknown_leader_epoch:
        return False
    stale = (ErrorCode.fenced_leader_epoch, ErrorCode.not_leader_or_follower)
    if leader.epoch > replica.epoch or error in stale:
        before = replica.state
        return replica.hear_of(now, leader) and replica.state is not before
    if leader.id != NOBODY and replica.leader_id == NOBODY:
        return None if replica.hear_of(now, leader) and error is ErrorCode.none else True
    if error is ErrorCode.broker_not_available:
        return False
    if error is ErrorCode.invalid_voter_key:
        return True
    return None
