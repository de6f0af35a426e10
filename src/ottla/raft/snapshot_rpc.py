"""FetchSnapshot 1, to and from the quorum's messages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kio.schema.fetch_snapshot.v1 import request as schema_request
from kio.schema.fetch_snapshot.v1 import response as schema_response
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import Records, i32, i32Timedelta, i64, u16

from ottla.model.names import METADATA_TOPIC
from ottla.raft.log_view import OffsetAndEpoch
from ottla.raft.messages import FetchSnapshotRequest, FetchSnapshotResponse, Leader
from ottla.raft.voters import NO_DIRECTORY, Endpoint, ReplicaKey

_TOPIC = TopicName(METADATA_TOPIC)


def request_entity(request: FetchSnapshotRequest) -> schema_request.FetchSnapshotRequest:
    partition = schema_request.PartitionSnapshot(
        partition=i32(0),
        current_leader_epoch=i32(request.epoch),
        snapshot_id=schema_request.SnapshotId(
            end_offset=i64(request.snapshot.offset), epoch=i32(request.snapshot.epoch)
        ),
        position=i64(request.position),
        replica_directory_id=request.replica.directory_id,
    )
    return schema_request.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=BrokerId(request.replica.id),
        max_bytes=i32(request.max_bytes),
        topics=(schema_request.TopicSnapshot(name=_TOPIC, partitions=(partition,)),),
    )


def request_of(entity: Any, partition: Any) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(
        entity.cluster_id,
        ReplicaKey(int(entity.replica_id), partition.replica_directory_id or NO_DIRECTORY),
        int(partition.current_leader_epoch),
        OffsetAndEpoch(int(partition.snapshot_id.end_offset), int(partition.snapshot_id.epoch)),
        int(partition.position),
        int(entity.max_bytes),
    )


def response_entity(response: FetchSnapshotResponse, listener: str) -> schema_response.FetchSnapshotResponse:
    leader = response.leader
    snapshot = response.snapshot or OffsetAndEpoch(-1, -1)
    partition = schema_response.PartitionSnapshot(
        index=i32(0),
        error_code=response.partition_error,
        snapshot_id=schema_response.SnapshotId(end_offset=i64(snapshot.offset), epoch=i32(snapshot.epoch)),
        current_leader=schema_response.LeaderIdAndEpoch(leader_id=BrokerId(leader.id), leader_epoch=i32(leader.epoch)),
        size=i64(response.size),
        position=i64(response.position),
        unaligned_records=Records.parse(bytes(response.data)),
    )
    known = [endpoint for endpoint in leader.endpoints if endpoint.listener == listener and leader.id >= 0]
    topic = schema_response.TopicSnapshot(name=_TOPIC, partitions=(partition,))
    return schema_response.FetchSnapshotResponse(
        throttle_time=i32Timedelta.parse(timedelta()),
        error_code=response.error,
        topics=() if response.error.value else (topic,),
        node_endpoints=tuple(
            schema_response.NodeEndpoint(node_id=BrokerId(leader.id), host=host, port=u16(port))
            for _, host, port in known
        ),
    )


def response_of(entity: Any, partition: Any, listener: str) -> FetchSnapshotResponse:
    id = int(partition.current_leader.leader_id)
    endpoints = tuple(
        Endpoint(listener, node.host, int(node.port)) for node in entity.node_endpoints if int(node.node_id) == id
    )
    named = OffsetAndEpoch(int(partition.snapshot_id.end_offset), int(partition.snapshot_id.epoch))
    return FetchSnapshotResponse(
        Leader(id, int(partition.current_leader.leader_epoch), endpoints),
        named if named.offset >= 0 and named.epoch >= 0 else None,
        int(partition.size),
        int(partition.position),
        data=bytes(partition.unaligned_records or b""),
        partition_error=partition.error_code,
    )
