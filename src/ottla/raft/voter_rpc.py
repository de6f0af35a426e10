"""AddRaftVoter 1, RemoveRaftVoter 0 and UpdateRaftVoter 0, to and from the quorum's messages.

And ApiVersions 4, asked of one who is to become a voter: which levels of kraft.version it supports.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.schema.add_raft_voter.v1 import request as add_request
from kio.schema.add_raft_voter.v1 import response as add_response
from kio.schema.api_versions.v4 import request as versions_request
from kio.schema.api_versions.v4 import response as versions_response
from kio.schema.remove_raft_voter.v0 import request as remove_request
from kio.schema.remove_raft_voter.v0 import response as remove_response
from kio.schema.types import BrokerId
from kio.schema.update_raft_voter.v0 import request as update_request
from kio.schema.update_raft_voter.v0 import response as update_response
from kio.static.primitive import i16, i32, i32Timedelta, u16

from ottla import __version__
from ottla.raft.messages import (
    AddVoterRequest,
    ChangeVotersResponse,
    KRaftVersionsRequest,
    KRaftVersionsResponse,
    Leader,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from ottla.raft.voters import NO_DIRECTORY, Endpoint, ReplicaKey, VersionRange

_REMOVE: Final = 81
_KRAFT_VERSION: Final = "kraft.version"
_NO_THROTTLE = i32Timedelta.parse(timedelta())


def request_entity(request: AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest | KRaftVersionsRequest) -> Any:
    match request:
        case KRaftVersionsRequest():
            return versions_request.ApiVersionsRequest(
                client_software_name="ottla", client_software_version=__version__
            )
        case AddVoterRequest(cluster_id, voter, endpoints, timeout_ms, ack_when_committed):
            return add_request.AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout=i32Timedelta.parse(timedelta(milliseconds=timeout_ms)),
                voter_id=i32(voter.id),
                voter_directory_id=voter.directory_id,
                listeners=tuple(
                    add_request.Listener(name=name, host=host, port=u16(port)) for name, host, port in endpoints
                ),
                ack_when_committed=ack_when_committed,
            )
        case RemoveVoterRequest(cluster_id, voter):
            return remove_request.RemoveRaftVoterRequest(
                cluster_id=cluster_id, voter_id=i32(voter.id), voter_directory_id=voter.directory_id
            )
        case UpdateVoterRequest(cluster_id, voter, epoch, endpoints, versions):
            return update_request.UpdateRaftVoterRequest(
                cluster_id=cluster_id,
                current_leader_epoch=i32(epoch),
                voter_id=i32(voter.id),
                voter_directory_id=voter.directory_id,
                listeners=tuple(
                    update_request.Listener(name=name, host=host, port=u16(port)) for name, host, port in endpoints
                ),
                k_raft_version_feature=update_request.KRaftVersionFeature(
                    min_supported_version=i16(versions.min), max_supported_version=i16(versions.max)
                ),
            )


def request_of(entity: Any) -> AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest | None:
    """None if it is none of these."""
    match entity:
        case add_request.AddRaftVoterRequest():
            timeout_ms = int(entity.timeout / timedelta(milliseconds=1))
            return AddVoterRequest(
                entity.cluster_id, _voter(entity), _endpoints(entity), timeout_ms, entity.ack_when_committed
            )
        case remove_request.RemoveRaftVoterRequest():
            return RemoveVoterRequest(entity.cluster_id, _voter(entity))
        case update_request.UpdateRaftVoterRequest():
            feature = entity.k_raft_version_feature
            versions = VersionRange(int(feature.min_supported_version), int(feature.max_supported_version))
            epoch = int(entity.current_leader_epoch)
            return UpdateVoterRequest(entity.cluster_id, _voter(entity), epoch, _endpoints(entity), versions)
    return None


def changed_entity(response: ChangeVotersResponse, key: int) -> Any:
    answer = remove_response.RemoveRaftVoterResponse if key == _REMOVE else add_response.AddRaftVoterResponse
    return answer(throttle_time=_NO_THROTTLE, error_code=response.error, error_message=response.message)


def updated_entity(response: UpdateVoterResponse, listener: str) -> update_response.UpdateRaftVoterResponse:
    leader = response.leader
    known = next((end for end in leader.endpoints if end.listener == listener), Endpoint(listener, "", 0))
    return update_response.UpdateRaftVoterResponse(
        throttle_time=_NO_THROTTLE,
        error_code=response.error,
        current_leader=update_response.CurrentLeader(
            leader_id=BrokerId(leader.id), leader_epoch=i32(leader.epoch), host=known.host, port=i32(known.port)
        ),
    )


def response_of(
    entity: Any, listener: str
) -> ChangeVotersResponse | UpdateVoterResponse | KRaftVersionsResponse | None:
    match entity:
        case versions_response.ApiVersionsResponse():
            supported = next((each for each in entity.supported_features if each.name == _KRAFT_VERSION), None)
            versions = VersionRange(int(supported.min_version), int(supported.max_version)) if supported else None
            return KRaftVersionsResponse(versions, entity.error_code)
        case add_response.AddRaftVoterResponse() | remove_response.RemoveRaftVoterResponse():
            return ChangeVotersResponse(entity.error_code, entity.error_message)
        case update_response.UpdateRaftVoterResponse():
            leader = entity.current_leader
            endpoints = (Endpoint(listener, leader.host, int(leader.port)),) if leader.host else ()
            found = Leader(int(leader.leader_id), int(leader.leader_epoch), endpoints)
            return UpdateVoterResponse(found, entity.error_code)
    return None


def _voter(entity: Any) -> ReplicaKey:
    directory_id: UUID | None = entity.voter_directory_id
    return ReplicaKey(int(entity.voter_id), directory_id or NO_DIRECTORY)


def _endpoints(entity: Any) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(end.name, end.host, int(end.port)) for end in entity.listeners)
