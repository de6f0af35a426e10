"""The quorum's messages survive Kafka's wire format."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kio.static.primitive import Records

from ottla.model.errors import ErrorCode
from ottla.raft import rpc, rpc_versions
from ottla.raft.control_records import batch_of, control_batch
from ottla.raft.log_view import LeaderChangeRecord, OffsetAndEpoch, VotersRecord
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
    Leader,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from ottla.raft.voters import Endpoint, ReplicaKey, VersionRange, VoterNode, VoterSet
from ottla.record.records import CorruptBatch
from ottla.wire import codec

ME, OTHER = ReplicaKey(1, UUID(int=77)), ReplicaKey(2, UUID(int=78))
LEADER = Leader(2, 5, (Endpoint("CONTROLLER", "host2", 9093),))
VOTERS = VoterSet.of([VoterNode(ME, LEADER.endpoints, VersionRange(0, 1))])
BATCHES = tuple(
    batch_of(control_batch([record], 5)) for record in (LeaderChangeRecord(1, (1,), (1,)), VotersRecord(VOTERS))
)

REQUESTS: list[Request] = [
    VoteRequest("cluster", 4, ME, OffsetAndEpoch(10, 3), pre_vote=True, voter=OTHER),
    VoteRequest(None, 4, ReplicaKey(1), OffsetAndEpoch(0, 0), pre_vote=False),
    BeginQuorumEpochRequest("cluster", LEADER, OTHER),
    BeginQuorumEpochRequest(None, Leader(2, 5)),
    EndQuorumEpochRequest("cluster", LEADER, (ME, OTHER)),
    FetchRequest("cluster", ME, 5, 10, 3, 9, 500, 1 << 20),
    FetchRequest(None, ReplicaKey(-1), 0, 0, 0),
    FetchSnapshotRequest("cluster", ME, 5, OffsetAndEpoch(7, 2), 64, 1000),
    AddVoterRequest("cluster", ME, LEADER.endpoints, 3000, ack_when_committed=False),
    RemoveVoterRequest(None, OTHER),
    UpdateVoterRequest("cluster", ME, 5, LEADER.endpoints, VersionRange(0, 1)),
]
RESPONSES: list[Response] = [
    VoteResponse(LEADER, granted=True),
    VoteResponse(Leader(-1, 4), partition_error=ErrorCode.fenced_leader_epoch),
    VoteResponse(error=ErrorCode.inconsistent_cluster_id),
    BeginQuorumEpochResponse(LEADER, ErrorCode.invalid_voter_key),
    EndQuorumEpochResponse(LEADER),
    FetchResponse(LEADER, 9, 0, batches=BATCHES),
    FetchResponse(LEADER, 9, 3, diverging=OffsetAndEpoch(7, 2)),
    FetchResponse(LEADER, 9, 3, snapshot=OffsetAndEpoch(7, 2)),
    FetchResponse(Leader(-1, 4), partition_error=ErrorCode.not_leader_or_follower),
    FetchResponse(error=ErrorCode.broker_not_available),
    FetchSnapshotResponse(LEADER, OffsetAndEpoch(7, 2), 100, 64, data=b"not aligned with batches"),
    FetchSnapshotResponse(LEADER, partition_error=ErrorCode.snapshot_not_found),
    FetchSnapshotResponse(error=ErrorCode.inconsistent_cluster_id),
    UpdateVoterResponse(LEADER, ErrorCode.voter_not_found),
    UpdateVoterResponse(Leader(-1, 4)),
]


def key_and_version(entity: Any) -> tuple[int, int]:
    return int(entity.__api_key__), int(entity.__version__)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_arrives_as_it_was_sent(request_: Request) -> None:
    entity = rpc.request_entity(request_)

    received = codec.decode_request(*key_and_version(entity), codec.encode_body(entity))

    assert rpc.request_of(received) == request_


@pytest.mark.parametrize("response", RESPONSES, ids=lambda response: type(response).__name__)
def test_a_response_arrives_as_it_was_sent(response: Response) -> None:
    entity = rpc.response_entity(response, "CONTROLLER")

    received = rpc.response_of(codec.decode_response(*key_and_version(entity), codec.encode_body(entity)), "CONTROLLER")

    if isinstance(received, FetchResponse):
        received = replace(received, batches=tuple(batch_of(bytes(batch.data)) for batch in received.batches))
    assert received == response


@pytest.mark.parametrize("key", [80, 81])
def test_answers_about_voters_arrive_as_they_were_sent(key: int) -> None:
    response = ChangeVotersResponse(ErrorCode.duplicate_voter, "it is one already")
    entity = rpc.response_entity(response, "CONTROLLER", key)
    assert entity.__api_key__ == key

    received = codec.decode_response(*key_and_version(entity), codec.encode_body(entity))

    assert rpc.response_of(received, "CONTROLLER") == response


OLDER = [
    (request, version)
    for request in REQUESTS
    if (key := int(rpc.request_entity(request).__api_key__)) in rpc_versions.NEWEST
    for version in range({1: 13}.get(key, 0), rpc_versions.NEWEST[key])
]


@pytest.mark.parametrize(("request_", "version"), OLDER, ids=lambda value: getattr(type(value), "__name__", value))
def test_a_request_arrives_in_older_versions_too(request_: Request, version: int) -> None:
    """Without what these cannot say: directories, endpoints, that a vote is only asked for beforehand."""
    older = rpc_versions.older_request(rpc.request_entity(request_), version)
    assert int(older.__version__) == version

    received = rpc_versions.upgraded(codec.decode_request(*key_and_version(older), codec.encode_body(older)))

    again = rpc.request_of(received)
    assert type(again) is type(request_)
    assert getattr(again, "epoch", None) == getattr(request_, "epoch", None)
    assert getattr(again, "cluster_id", None) == getattr(request_, "cluster_id", None)


@pytest.mark.parametrize("response", RESPONSES, ids=lambda response: type(response).__name__)
def test_an_answer_is_understood_in_older_versions_too(response: Response) -> None:
    entity = rpc.response_entity(response, "CONTROLLER")
    key, newest = key_and_version(entity)
    for version in range({1: 13}.get(key, 0), newest):
        older = rpc_versions.downgraded(entity, version)
        received = codec.decode_response(key, version, codec.encode_body(older))

        again = rpc.response_of(rpc_versions.newest_response(received), "CONTROLLER")

        assert type(again) is type(response)
        assert again.error == response.error


def test_endpoints_are_given_for_the_listener_of_the_one_who_asks() -> None:
    entity = rpc.response_entity(VoteResponse(LEADER), "ANOTHER")

    assert entity.node_endpoints == ()


def test_a_request_about_another_partition_is_refused() -> None:
    entity = rpc.request_entity(REQUESTS[0])
    other = replace(entity, topics=(replace(entity.topics[0], topic_name="orders"),))

    with pytest.raises(rpc.WrongPartition):
        rpc.request_of(other)
    with pytest.raises(rpc.WrongPartition):
        rpc.request_of(replace(entity, topics=()))


def test_a_batch_that_was_damaged_on_its_way_is_not_taken() -> None:
    """Stored, it would count for a majority that does not have it, and keep this node from starting."""
    entity = rpc.response_entity(FetchResponse(LEADER, 9, 0, batches=BATCHES), "CONTROLLER")
    (topic,) = entity.responses
    (partition,) = topic.partitions
    damaged = bytearray(partition.records)
    damaged[-1] ^= 1
    partition = replace(partition, records=Records.parse(bytes(damaged)))

    with pytest.raises(CorruptBatch, match="checksum"):
        rpc.response_of(replace(entity, responses=(replace(topic, partitions=(partition,)),)), "CONTROLLER")
