"""AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter and the upgrade to kraft.version 1 (KIP-853): the leader's side.

One change at a time, and only after a record of the leader's own epoch is committed: then any two sets of voters that
follow each other have a majority in common, and no change of an earlier leader can come back.
"""

from __future__ import annotations

from ottla.model.errors import ErrorCode
from ottla.raft.effects import Reply, Send
from ottla.raft.elections import is_of_cluster, refusal_by_leader
from ottla.raft.leadership import Leadership, VoterChange
from ottla.raft.log_view import KRaftVersionRecord, VotersRecord
from ottla.raft.messages import (
    AddVoterRequest,
    ChangeVotersResponse,
    KRaftVersionsRequest,
    KRaftVersionsResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from ottla.raft.replica import Replica
from ottla.raft.voters import NO_DIRECTORY, ReplicaKey, VoterNode, VoterSet

_FEATURE = "kraft.version"


class _Refused(Exception):
    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def on_add_voter(replica: Replica, now: int, token: object, request: AddVoterRequest) -> None:
    try:
        leadership = _leadership(replica, request.cluster_id)
        if request.voter.id < 0 or request.voter.directory_id == NO_DIRECTORY:
            raise _Refused(ErrorCode.invalid_request, "Add voter request didn't include a valid voter")
        to = replica.destination(request.voter.id, request.endpoints)
        if to is None:
            known = ", ".join(f"{name}={host}:{port}" for name, host, port in request.endpoints)
            raise _Refused(
                ErrorCode.invalid_request,
                f"Add voter request didn't include the endpoint ({known}) for the default listener {replica.listener}",
            )
        voters = _committed_voters(replica, leadership, now, "adding")
        if request.voter.id in voters.nodes:
            raise _Refused(
                ErrorCode.duplicate_voter,
                f"The voter id for {request.voter} is already part of the set of voters {voters}.",
            )
        if not replica.connections.is_ready(to.id, now):
            raise _Refused(ErrorCode.request_timed_out, f"New voter {request.voter} is not ready to receive requests")
    except _Refused as refused:
        replica.out.append(Reply(token, ChangeVotersResponse(refused.error, refused.message)))
        return
    leadership.change = VoterChange(token, now + replica.settings.request_timeout_ms, adding=request)
    replica.out.append(Send(to, replica.connections.sent(to.id, now), KRaftVersionsRequest()))


def on_kraft_versions(replica: Replica, now: int, node_id: int, response: KRaftVersionsResponse) -> bool:
    """The one to be added says what it supports. Now it only has to be level with the log."""
    leadership = replica.state
    if not isinstance(leadership, Leadership) or leadership.change is None:
        return True
    change, request = leadership.change, leadership.change.adding
    if request is None or change.offset is not None or request.voter.id != node_id:
        return True
    supported, wanted = response.kraft_versions, replica.kraft_version
    if response.error is not ErrorCode.none:
        reason = f"Aborted add voter operation for since API_VERSIONS returned an error {response.error.name.upper()}"
        _finish(replica, leadership, ErrorCode.request_timed_out, reason)
        return False
    if supported is None or wanted not in supported:
        offered = "(min: 0, max: 0)" if supported is None else f"(min: {supported.min}, max: {supported.max}"
        reason = (
            f"Aborted add voter operation for {request.voter} since the {_FEATURE} range {offered} doesn't support the "
            f"finalized version {wanted}"
        )
        _finish(replica, leadership, ErrorCode.invalid_request, reason)
        return True
    if not leadership.is_caught_up(request.voter, now):
        reason = f"Aborted add voter operation for {request.voter} since it is lagging behind"
        _finish(replica, leadership, ErrorCode.request_timed_out, reason)
        return True
    voters = replica.voters.adding(VoterNode(request.voter, request.endpoints, supported))
    assert voters is not None, f"{request.voter} became a voter while it was being added"
    change.offset = replica.append_control(VotersRecord(voters))
    if not request.ack_when_committed:
        change.is_answered = True
        replica.out.append(Reply(change.token, ChangeVotersResponse()))
    return True


def on_remove_voter(replica: Replica, now: int, token: object, request: RemoveVoterRequest) -> None:
    try:
        leadership = _leadership(replica, request.cluster_id)
        if request.voter.id < 0 or request.voter.directory_id == NO_DIRECTORY:
            raise _Refused(ErrorCode.invalid_request, "Remove voter request didn't include a valid voter")
        voters = _committed_voters(replica, leadership, now, "removing")
        fewer = voters.removing(request.voter)
        if fewer is None:
            raise _Refused(
                ErrorCode.voter_not_found, f"Cannot remove voter {request.voter} from the set of voters {voters}"
            )
    except _Refused as refused:
        replica.out.append(Reply(token, ChangeVotersResponse(refused.error, refused.message)))
        return
    leadership.change = VoterChange(token, now + replica.settings.request_timeout_ms)
    leadership.change.offset = replica.append_control(VotersRecord(fewer))


def on_update_voter(replica: Replica, now: int, token: object, request: UpdateVoterRequest) -> None:
    try:
        _update_voter(replica, now, request)
        error = ErrorCode.none
    except _Refused as refused:
        error = refused.error
    replica.out.append(Reply(token, UpdateVoterResponse(replica.leader, error)))


def _update_voter(replica: Replica, now: int, request: UpdateVoterRequest) -> None:
    if not is_of_cluster(replica, request.cluster_id):
        raise _Refused(ErrorCode.inconsistent_cluster_id)
    refused = refusal_by_leader(replica, request.epoch)
    if refused is not None:
        raise _Refused(refused)
    leadership = replica.state
    assert isinstance(leadership, Leadership)
    versions = request.kraft_versions
    is_known = request.voter.id >= 0 and request.voter.directory_id != NO_DIRECTORY
    is_range = 0 <= versions.min <= versions.max
    if not is_known or not is_range or replica.destination(request.voter.id, request.endpoints) is None:
        raise _Refused(ErrorCode.invalid_request)
    if _has_change(replica, leadership, now) or replica.high_watermark < 0:
        raise _Refused(ErrorCode.request_timed_out)
    is_static = replica.kraft_version == 0
    voters = leadership.volatile_voters if is_static else replica.voters
    if voters is None or (not is_static and replica.log.controls.voters_offset >= replica.high_watermark):
        raise _Refused(ErrorCode.request_timed_out)
    if replica.kraft_version not in versions:
        raise _Refused(ErrorCode.invalid_request)
    updated = voters.updating(VoterNode(request.voter, request.endpoints, versions), any_directory=is_static)
    if updated is None:
        raise _Refused(ErrorCode.voter_not_found)
    if is_static:
        leadership.volatile_voters = updated  # not for the log before kraft.version 1
    else:
        replica.append_control(VotersRecord(updated))
    leadership.heard_of(request.voter, now)


def upgrade_kraft_version(replica: Replica, version: int, *, validate_only: bool = False) -> ErrorCode:
    """From static voters to voters in the log, once every voter has told where it listens and what it supports."""
    leadership = replica.state
    if not isinstance(leadership, Leadership):
        return ErrorCode.not_leader_or_follower
    if version == replica.kraft_version:
        return ErrorCode.none
    voters = leadership.volatile_voters
    if version != 1 or voters is None:
        return ErrorCode.invalid_update_version
    if any(
        version not in node.kraft_versions or node.key.directory_id == NO_DIRECTORY for node in voters.nodes.values()
    ):
        return ErrorCode.invalid_update_version
    if not validate_only:
        leadership.volatile_voters = None
        replica.append_control(KRaftVersionRecord(version), VotersRecord(voters))
    return ErrorCode.none


def on_committed(replica: Replica) -> None:
    """A change is done when its record is committed, by a majority of the new voters. A leader who is none goes."""
    leadership = replica.state
    if isinstance(leadership, Leadership) and leadership.change is not None:
        offset = leadership.change.offset
        if offset is not None and replica.high_watermark > offset:
            _finish(replica, leadership, ErrorCode.none)
    if isinstance(leadership, Leadership) and not replica.is_voter:
        leadership.wants_to_resign |= replica.high_watermark > replica.log.controls.voters_offset


def expire_change(replica: Replica, now: int) -> None:
    """Nobody waits any longer. What was appended stays, and is committed or not like anything else."""
    leadership = replica.state
    if isinstance(leadership, Leadership) and leadership.change is not None and now >= leadership.change.expires_at:
        _finish(replica, leadership, ErrorCode.request_timed_out)


def _finish(replica: Replica, leadership: Leadership, error: ErrorCode, message: str | None = None) -> None:
    change, leadership.change = leadership.change, None
    if change is not None and not change.is_answered:
        replica.out.append(Reply(change.token, ChangeVotersResponse(error, message)))


def _has_change(replica: Replica, leadership: Leadership, now: int) -> bool:
    expire_change(replica, now)
    return leadership.change is not None


def _leadership(replica: Replica, cluster_id: str | None) -> Leadership:
    if not is_of_cluster(replica, cluster_id):
        reason = f'The given id "{cluster_id}" doesn\'t match the cluster id "{replica.cluster_id}"'
        raise _Refused(ErrorCode.inconsistent_cluster_id, reason)
    refused = refusal_by_leader(replica, replica.epoch)
    if refused is not None:
        raise _Refused(refused)
    assert isinstance(replica.state, Leadership)
    return replica.state


def _committed_voters(replica: Replica, leadership: Leadership, now: int, doing: str) -> VoterSet:
    timed_out = ErrorCode.request_timed_out
    if _has_change(replica, leadership, now):
        raise _Refused(timed_out, "Request timed out waiting for leader to handle previous voter change request")
    if replica.high_watermark < 0:
        reason = "Request timed out waiting for leader to establish HWM and fence previous voter changes"
        raise _Refused(timed_out, reason)
    if replica.kraft_version == 0:
        reason = f"Cluster doesn't support {doing} voter because the {_FEATURE} feature is 0"
        raise _Refused(ErrorCode.unsupported_version, reason)
    offset = replica.log.controls.voters_offset
    if not replica.log.controls.voters_at or offset >= replica.high_watermark:
        at = f"Optional[{offset}]" if replica.log.controls.voters_at else "Optional.empty"
        raise _Refused(
            timed_out,
            f"Request timed out waiting for voters to commit the latest voter change at {at} with HWM "
            f"{replica.high_watermark}",
        )
    return replica.voters


def previous_self(replica: Replica) -> ReplicaKey | None:
    """A voter with this node's id and another directory: what it was before it lost its disk."""
    node = replica.voters.nodes.get(replica.me.id)
    return None if node is None or node.key.covers(replica.me) else node.key
