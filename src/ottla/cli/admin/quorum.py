"""The quorum that keeps a cluster's metadata (KIP-595), as its leader sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast
from uuid import UUID

from ottla.cli.admin.session import Session, raise_for
from ottla.cli.admin.topics import CHANGE_WITHIN_S, change_timeout
from ottla.cli.cluster_options import Address
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import METADATA_TOPIC

_DESCRIBE_QUORUM: Final = 55
_CONTROLLERS: Final = 2
"""Whom DescribeCluster is asked about."""


class Member(NamedTuple):
    id: int
    directory: UUID | None
    """Known where voters may change (KIP-853)."""
    end: int | None
    fetched_ms: int | None
    level_ms: int | None
    """When it had last all that the leader had then, by the leader's clock."""
    is_voter: bool
    address: Address | None
    """Where it listens as a controller."""


class Quorum(NamedTuple):
    leader: int | None
    epoch: int
    high_watermark: int
    members: tuple[Member, ...]

    @property
    def voters(self) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.is_voter)

    def lag(self, member: Member) -> int | None:
        """How many records the leader has that it does not have; None if that is not known."""
        end = next((each.end for each in self.members if each.id == self.leader), None)
        return None if end is None or member.end is None else max(0, end - member.end)


async def quorum(session: Session) -> Quorum:
    """OttlaError where the metadata is not kept by a quorum. Brokers and controllers can be asked."""
    from importlib import import_module

    version = await session.newest(_DESCRIBE_QUORUM, 2)
    if version is None:
        raise OttlaError("this cluster does not tell about its quorum: it is older than KRaft, or uses ZooKeeper")
    schema: Any = import_module(f"kio.schema.describe_quorum.v{version}.request")
    partition = schema.PartitionData(partition_index=cast(Any, 0))
    topic = schema.TopicData(topic_name=cast(Any, METADATA_TOPIC), partitions=(partition,))
    request = schema.DescribeQuorumRequest(topics=(topic,))
    answer = await session.call(request)
    codes = {answer.error_code, *(row.error_code for topic in answer.topics for row in topic.partitions)}
    if ErrorCode.not_leader_or_follower in codes:  # a controller, and not the active one
        answer = await session.call(request, broker=await _active_controller(session))
    what = "cannot ask for the quorum"
    raise_for(answer.error_code, getattr(answer, "error_message", None), what)
    row = answer.topics[0].partitions[0]
    raise_for(row.error_code, getattr(row, "error_message", None), what)
    where = {
        node.node_id: Address(node.listeners[0].host, node.listeners[0].port)
        for node in getattr(answer, "nodes", ())
        if node.listeners
    }
    members = [
        _member(each, is_voter=is_voter, address=where.get(each.replica_id) if is_voter else None)
        for rows, is_voter in ((row.current_voters, True), (row.observers, False))
        for each in sorted(rows, key=lambda each: each.replica_id)
    ]
    leader = row.leader_id if row.leader_id >= 0 else None
    return Quorum(leader, row.leader_epoch, row.high_watermark, tuple(members))


async def _active_controller(session: Session) -> int:
    """Also tells the session where the controllers are."""
    from kio.schema.describe_cluster.v1.request import DescribeClusterRequest

    answer = await session.call(
        DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=cast(Any, _CONTROLLERS))
    )
    raise_for(answer.error_code, answer.error_message, "cannot ask for the controllers")
    session.brokers = {row.broker_id: Address(row.host, row.port) for row in answer.brokers}
    if answer.controller_id not in session.brokers:
        raise OttlaError("no controller is active: an election is under way, or most voters are down")
    return int(answer.controller_id)


def _member(row: Any, *, is_voter: bool, address: Address | None) -> Member:
    return Member(
        row.replica_id,
        getattr(row, "replica_directory_id", None),
        _known(row.log_end_offset),
        _known(getattr(row, "last_fetch_timestamp", -1)),
        _known(getattr(row, "last_caught_up_timestamp", -1)),
        is_voter,
        address,
    )


def _known(number: int) -> int | None:
    return None if number < 0 else int(number)


async def add_voter(session: Session, node_id: int, directory: UUID, listeners: Sequence[tuple[str, Address]]) -> None:
    """Makes a controller that follows the quorum one of its voters (KIP-853)."""
    from kio.schema.add_raft_voter.v0.request import AddRaftVoterRequest, Listener

    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout=change_timeout(),
        voter_id=cast(Any, node_id),
        voter_directory_id=directory,
        listeners=tuple(
            Listener(name=name, host=address.host, port=cast(Any, address.port)) for name, address in listeners
        ),
    )
    answer = await _change(session, request)
    raise_for(answer.error_code, answer.error_message, f"cannot make node {node_id} a voter")


async def remove_voter(session: Session, node_id: int, directory: UUID) -> None:
    from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest

    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=cast(Any, node_id), voter_directory_id=directory)
    answer = await _change(session, request)
    raise_for(answer.error_code, answer.error_message, f"cannot take node {node_id} out of the voters")


async def _change(session: Session, request: Any) -> Any:
    """By whoever was reached, if it takes the request or passes it on; otherwise by the active controller itself."""
    if await session.newest(int(request.__api_key__), 0) is not None:
        answer = await session.call(request, longer_s=CHANGE_WITHIN_S)
        if answer.error_code not in (ErrorCode.not_leader_or_follower, ErrorCode.not_controller):
            return answer
    found = await quorum(session)
    leader = next((member for member in found.voters if member.id == found.leader), None)
    if leader is None or leader.address is None:
        raise OttlaError("no controller is active that could change the voters; `ottla cluster quorum` shows them")
    session.brokers = {leader.id: leader.address}
    return await session.call(request, broker=leader.id, longer_s=CHANGE_WITHIN_S)
