"""The quorum's messages as Kafka's: Vote 2, BeginQuorumEpoch 1, EndQuorumEpoch 1, Fetch 18, in both directions.

snapshot_rpc.py has FetchSnapshot, voter_rpc.py what is about voters, rpc_versions.py what others may say in older
versions.

Every message is about one partition, `__cluster_metadata-0`. `WrongPartition` is for one that is not, which Kafka
answers with INVALID_REQUEST as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.schema.begin_quorum_epoch.v1 import request as begin_request
from kio.schema.begin_quorum_epoch.v1 import response as begin_response
from kio.schema.end_quorum_epoch.v1 import request as end_request
from kio.schema.end_quorum_epoch.v1 import response as end_response
from kio.schema.fetch.v18 import request as fetch_request
from kio.schema.fetch.v18 import response as fetch_response
from kio.schema.fetch_snapshot.v1 import request as snapshot_request
from kio.schema.fetch_snapshot.v1 import response as snapshot_response
from kio.schema.types import BrokerId, TopicName
from kio.schema.vote.v2 import request as vote_request
from kio.schema.vote.v2 import response as vote_response
from kio.static.primitive import Records, i32, i32Timedelta, i64, u16

from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode
from ottla.model.names import METADATA_TOPIC, METADATA_TOPIC_ID
from ottla.raft import snapshot_rpc, voter_rpc
from ottla.raft.control_records import batch_of
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ChangeVotersResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    KRaftVersionsRequest,
    Leader,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from ottla.raft.voters import NO_DIRECTORY, Endpoint, ReplicaKey
from ottla.record.batch import computed_crc
from ottla.record.reader import iterate_batches
from ottla.record.records import CorruptBatch

_TOPIC: Final = TopicName(METADATA_TOPIC)
_NO_OFFSET: Final = -1


class WrongPartition(ValueError):
    """A message about another partition than that of the quorum, or about several."""


class NotOnTheWire(ValueError):
    """A message that this module has no form for."""


# -- what this replica asks, and what it is asked


def request_entity(request: Request) -> Any:
    match request:
        case VoteRequest(cluster_id, epoch, replica, last, pre_vote, voter):
            vote = vote_request.PartitionData(
                partition_index=i32(0),
                replica_epoch=i32(epoch),
                replica_id=BrokerId(replica.id),
                replica_directory_id=replica.directory_id,
                voter_directory_id=voter.directory_id if voter else NO_DIRECTORY,
                last_offset_epoch=i32(last.epoch),
                last_offset=i64(last.offset),
                pre_vote=pre_vote,
            )
            return vote_request.VoteRequest(
                cluster_id=cluster_id,
                voter_id=BrokerId(voter.id if voter else -1),
                topics=(vote_request.TopicData(topic_name=_TOPIC, partitions=(vote,)),),
            )
        case BeginQuorumEpochRequest(cluster_id, leader, voter):
            begin = begin_request.PartitionData(
                partition_index=i32(0),
                voter_directory_id=voter.directory_id if voter else NO_DIRECTORY,
                leader_id=BrokerId(leader.id),
                leader_epoch=i32(leader.epoch),
            )
            return begin_request.BeginQuorumEpochRequest(
                cluster_id=cluster_id,
                voter_id=BrokerId(voter.id if voter else -1),
                topics=(begin_request.TopicData(topic_name=_TOPIC, partitions=(begin,)),),
                leader_endpoints=tuple(
                    begin_request.LeaderEndpoint(name=name, host=host, port=u16(port))
                    for name, host, port in leader.endpoints
                ),
            )
        case EndQuorumEpochRequest(cluster_id, leader, successors):
            end = end_request.PartitionData(
                partition_index=i32(0),
                leader_id=BrokerId(leader.id),
                leader_epoch=i32(leader.epoch),
                preferred_candidates=tuple(
                    end_request.ReplicaInfo(candidate_id=BrokerId(key.id), candidate_directory_id=key.directory_id)
                    for key in successors
                ),
            )
            return end_request.EndQuorumEpochRequest(
                cluster_id=cluster_id,
                topics=(end_request.TopicData(topic_name=_TOPIC, partitions=(end,)),),
                leader_endpoints=tuple(
                    end_request.LeaderEndpoint(name=name, host=host, port=u16(port))
                    for name, host, port in leader.endpoints
                ),
            )
        case FetchRequest():
            return _fetch_entity(request)
        case FetchSnapshotRequest():
            return snapshot_rpc.request_entity(request)
        case AddVoterRequest() | RemoveVoterRequest() | UpdateVoterRequest() | KRaftVersionsRequest():
            return voter_rpc.request_entity(request)
    raise NotOnTheWire(f"{type(request).__name__} cannot be sent yet")


def _fetch_entity(request: FetchRequest) -> fetch_request.FetchRequest:
    partition = fetch_request.FetchPartition(
        partition=i32(0),
        current_leader_epoch=i32(request.epoch),
        fetch_offset=i64(request.offset),
        last_fetched_epoch=i32(request.last_fetched_epoch),
        partition_max_bytes=i32(0),  # KRaft's go by the limit of the whole request
        replica_directory_id=request.replica.directory_id,
        high_watermark=i64(request.high_watermark),
    )
    return fetch_request.FetchRequest(
        cluster_id=request.cluster_id,
        replica_state=fetch_request.ReplicaState(replica_id=BrokerId(request.replica.id)),
        max_wait=i32Timedelta.parse(timedelta(milliseconds=request.max_wait_ms)),
        min_bytes=i32(0),
        max_bytes=i32(request.max_bytes),
        topics=(fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def request_of(entity: Any) -> Request:
    """WrongPartition if it is not about the metadata."""
    match entity:
        case vote_request.VoteRequest():
            vote = _only(entity.topics, "topic_name")
            return VoteRequest(
                entity.cluster_id,
                int(vote.replica_epoch),
                _key(vote.replica_id, vote.replica_directory_id),
                OffsetAndEpoch(int(vote.last_offset), int(vote.last_offset_epoch)),
                vote.pre_vote,
                _meant(entity.voter_id, vote.voter_directory_id),
            )
        case begin_request.BeginQuorumEpochRequest():
            begin = _only(entity.topics, "topic_name")
            leader = Leader(int(begin.leader_id), int(begin.leader_epoch), _endpoints(entity.leader_endpoints))
            return BeginQuorumEpochRequest(entity.cluster_id, leader, _meant(entity.voter_id, begin.voter_directory_id))
        case end_request.EndQuorumEpochRequest():
            end = _only(entity.topics, "topic_name")
            leader = Leader(int(end.leader_id), int(end.leader_epoch), _endpoints(entity.leader_endpoints))
            successors = tuple(_key(key.candidate_id, key.candidate_directory_id) for key in end.preferred_candidates)
            return EndQuorumEpochRequest(entity.cluster_id, leader, successors)
        case fetch_request.FetchRequest():
            fetch = _only(entity.topics, "topic_id")
            return FetchRequest(
                entity.cluster_id,
                _key(entity.replica_state.replica_id, fetch.replica_directory_id),
                int(fetch.current_leader_epoch),
                int(fetch.fetch_offset),
                int(fetch.last_fetched_epoch),
                int(fetch.high_watermark),
                int(entity.max_wait / timedelta(milliseconds=1)),
                int(entity.max_bytes),
            )
        case snapshot_request.FetchSnapshotRequest():
            return snapshot_rpc.request_of(entity, _only(entity.topics, "name"))
    about_voters = voter_rpc.request_of(entity)
    if about_voters is None:
        raise NotOnTheWire(f"{type(entity).__name__} is not a message of the quorum")
    return about_voters


# -- what it answers, and what it is answered


def response_entity(response: Response, listener: str, key: int = 0) -> Any:
    """`listener` is the one that the request came by: endpoints of the leader are given for it alone.

    `key` is the API's; only AddRaftVoter and RemoveRaftVoter need it, as they have their answer in common.
    """
    match response:
        case VoteResponse(leader, granted, partition_error, error):
            vote = vote_response.PartitionData(
                partition_index=i32(0),
                error_code=partition_error,
                leader_id=BrokerId(leader.id),
                leader_epoch=i32(leader.epoch),
                vote_granted=granted,
            )
            topic = vote_response.TopicData(topic_name=_TOPIC, partitions=(vote,))
            nodes = tuple(
                vote_response.NodeEndpoint(node_id=BrokerId(leader.id), host=host, port=u16(port))
                for _, host, port in _of_listener(leader, listener)
            )
            return vote_response.VoteResponse(
                error_code=error, topics=() if error.value else (topic,), node_endpoints=nodes
            )
        case BeginQuorumEpochResponse(leader, partition_error, error):
            begin = begin_response.PartitionData(
                partition_index=i32(0),
                error_code=partition_error,
                leader_id=BrokerId(leader.id),
                leader_epoch=i32(leader.epoch),
            )
            begun = begin_response.TopicData(topic_name=_TOPIC, partitions=(begin,))
            found = tuple(
                begin_response.NodeEndpoint(node_id=BrokerId(leader.id), host=host, port=u16(port))
                for _, host, port in _of_listener(leader, listener)
            )
            return begin_response.BeginQuorumEpochResponse(
                error_code=error, topics=() if error.value else (begun,), node_endpoints=found
            )
        case EndQuorumEpochResponse(leader, partition_error, error):
            end = end_response.PartitionData(
                partition_index=i32(0),
                error_code=partition_error,
                leader_id=BrokerId(leader.id),
                leader_epoch=i32(leader.epoch),
            )
            ended = end_response.TopicData(topic_name=_TOPIC, partitions=(end,))
            known = tuple(
                end_response.NodeEndpoint(node_id=BrokerId(leader.id), host=host, port=u16(port))
                for _, host, port in _of_listener(leader, listener)
            )
            return end_response.EndQuorumEpochResponse(
                error_code=error, topics=() if error.value else (ended,), node_endpoints=known
            )
        case FetchResponse():
            return _fetched_entity(response, listener)
        case FetchSnapshotResponse():
            return snapshot_rpc.response_entity(response, listener)
        case UpdateVoterResponse():
            return voter_rpc.updated_entity(response, listener)
        case ChangeVotersResponse():
            return voter_rpc.changed_entity(response, key)
    raise NotOnTheWire(f"{type(response).__name__} cannot be sent yet")


def _fetched_entity(response: FetchResponse, listener: str) -> fetch_response.FetchResponse:
    leader = response.leader
    diverging = response.diverging or OffsetAndEpoch(_NO_OFFSET, -1)
    snapshot = response.snapshot or OffsetAndEpoch(_NO_OFFSET, -1)
    partition = fetch_response.PartitionData(
        partition_index=i32(0),
        error_code=response.partition_error,
        high_watermark=i64(response.high_watermark),
        log_start_offset=i64(response.log_start_offset),
        diverging_epoch=fetch_response.EpochEndOffset(epoch=i32(diverging.epoch), end_offset=i64(diverging.offset)),
        current_leader=fetch_response.LeaderIdAndEpoch(leader_id=BrokerId(leader.id), leader_epoch=i32(leader.epoch)),
        snapshot_id=fetch_response.SnapshotId(end_offset=i64(snapshot.offset), epoch=i32(snapshot.epoch)),
        aborted_transactions=None,
        records=Records.parse(b"".join(batch.data for batch in response.batches)),
    )
    topic = fetch_response.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return fetch_response.FetchResponse(
        throttle_time=i32Timedelta.parse(timedelta()),
        error_code=response.error,
        responses=() if response.error.value else (topic,),
        node_endpoints=tuple(
            fetch_response.NodeEndpoint(node_id=BrokerId(leader.id), host=host, port=i32(port))
            for _, host, port in _of_listener(leader, listener)
        ),
    )


def response_of(entity: Any, listener: str) -> Response:
    """`listener` is the name that endpoints in it get. WrongPartition if it is not about the metadata."""
    error = entity.error_code
    match entity:
        case vote_response.VoteResponse():
            if error.value:
                return VoteResponse(error=error)
            vote = _only(entity.topics, "topic_name")
            return VoteResponse(_leader(vote, entity, listener), vote.vote_granted, vote.error_code)
        case begin_response.BeginQuorumEpochResponse():
            if error.value:
                return BeginQuorumEpochResponse(error=error)
            begin = _only(entity.topics, "topic_name")
            return BeginQuorumEpochResponse(_leader(begin, entity, listener), begin.error_code)
        case end_response.EndQuorumEpochResponse():
            if error.value:
                return EndQuorumEpochResponse(error=error)
            end = _only(entity.topics, "topic_name")
            return EndQuorumEpochResponse(_leader(end, entity, listener), end.error_code)
        case fetch_response.FetchResponse():
            if error.value:
                return FetchResponse(error=error)
            fetched = _only(entity.responses, "topic_id")
            diverging, snapshot = fetched.diverging_epoch, fetched.snapshot_id
            return FetchResponse(
                _leader(fetched.current_leader, entity, listener),
                int(fetched.high_watermark),
                int(fetched.log_start_offset),
                diverging=_where(diverging),
                snapshot=_where(snapshot),
                batches=tuple(batch_of(batch) for batch in _whole_batches(fetched.records or b"")),
                partition_error=fetched.error_code,
            )
        case snapshot_response.FetchSnapshotResponse():
            if error.value:
                return FetchSnapshotResponse(error=error)
            return snapshot_rpc.response_of(entity, _only(entity.topics, "name"), listener)
    about_voters = voter_rpc.response_of(entity, listener)
    if about_voters is None:
        raise NotOnTheWire(f"{type(entity).__name__} is not an answer of the quorum")
    return about_voters


def refusal(key: int, error: ErrorCode) -> Response:
    """An answer to any request of this API that says only this, of the request as a whole."""
    match key:
        case 1:
            return FetchResponse(error=error)
        case 52:
            return VoteResponse(error=error)
        case 53:
            return BeginQuorumEpochResponse(error=error)
        case 54:
            return EndQuorumEpochResponse(error=error)
        case 59:
            return FetchSnapshotResponse(error=error)
        case 82:
            return UpdateVoterResponse(error=error)
    return ChangeVotersResponse(error)


def _whole_batches(records: Buffer) -> list[memoryview]:
    """CorruptBatch if one was damaged on its way: a follower that stored it would say that it has what it has not."""
    batches = []
    for header, batch in iterate_batches(records):
        if header.crc != computed_crc(batch):
            raise CorruptBatch(f"the checksum of the batch at offset {header.base_offset} is wrong")
        batches.append(batch)
    return batches


def _where(end: Any) -> OffsetAndEpoch | None:
    return None if end.epoch < 0 and end.end_offset < 0 else OffsetAndEpoch(int(end.end_offset), int(end.epoch))


def _leader(partition: Any, entity: Any, listener: str) -> Leader:
    id = int(partition.leader_id)
    endpoints = tuple(
        Endpoint(listener, node.host, int(node.port)) for node in entity.node_endpoints if int(node.node_id) == id
    )
    return Leader(id, int(partition.leader_epoch), endpoints)


def _of_listener(leader: Leader, listener: str) -> Sequence[Endpoint]:
    return [endpoint for endpoint in leader.endpoints if endpoint.listener == listener] if leader.id >= 0 else []


def _endpoints(entities: Sequence[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(end.name, end.host, int(end.port)) for end in entities)


def _key(id: int, directory_id: UUID | None) -> ReplicaKey:
    return ReplicaKey(int(id), directory_id or NO_DIRECTORY)


def _meant(id: int, directory_id: UUID | None) -> ReplicaKey | None:
    """Whom a request is for; older versions do not say."""
    return None if id < 0 else _key(id, directory_id)


def _only(topics: Sequence[Any], name: str) -> Any:
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        partition = topics[0].partitions[0]
        number = next(
            getattr(partition, field)
            for field in ("partition", "partition_index", "index")
            if hasattr(partition, field)
        )
        if getattr(topics[0], name) in (METADATA_TOPIC, METADATA_TOPIC_ID) and number == 0:
            return partition
    raise WrongPartition(f"not about {METADATA_TOPIC}-0 alone")
