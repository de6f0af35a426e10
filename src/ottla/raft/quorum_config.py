"""Who forms the quorum and where to ask for it, as the configs about voters and bootstrap servers say it."""

from collections.abc import Sequence
from typing import cast
from uuid import UUID

from ottla.model.config import BrokerConfig
from ottla.model.config.broker import voter_ids
from ottla.model.config.validators import split_host_port
from ottla.model.errors import OttlaError
from ottla.raft.messages import Destination
from ottla.raft.node import Company, Peers
from ottla.raft.settings import QuorumSettings
from ottla.raft.snapshot_store import SnapshotStore
from ottla.raft.voters import Endpoint, ReplicaKey, VersionRange, VoterNode, VoterSet

_FIRST_BOOTSTRAP_ID = -2
KRAFT_VERSIONS = VersionRange(0, 1)


def company(
    config: BrokerConfig,
    cluster_id: str,
    directory_id: UUID,
    endpoints: tuple[Endpoint, ...],
    snapshots: SnapshotStore,
    peers: Peers | None,
) -> Company:
    """`endpoints` are where this node's controller listens. `directory_id` is that of the metadata log's folder.

    Who names neither voters nor servers is a quorum of his own, unless a format put other voters beside his log.
    """
    named, servers = config.controller_quorum_voters, _servers(config)
    listener = listener_name(config)
    voters = static_voters(named, listener) if named or servers else VoterSet.static((config.node_id,))
    return Company(
        VoterNode(ReplicaKey(config.node_id, directory_id), endpoints, KRAFT_VERSIONS),
        cluster_id,
        voters,
        peers,
        bootstrap_servers(servers, voters, config.node_id, listener),
        quorum_settings(config),
        listener,
        snapshots,
        can_become_voter=config.is_controller,
    )


def listener_name(config: BrokerConfig) -> str:
    names = config.listeners.controller_names
    return names[0] if names else "CONTROLLER"


def quorum_settings(config: BrokerConfig) -> QuorumSettings:
    return QuorumSettings(
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_backoff_max_ms=config.get_int("controller.quorum.election.backoff.max.ms"),
        request_timeout_ms=config.get_int("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=config.get_int("controller.quorum.retry.backoff.ms"),
        fetch_max_bytes=config.get_int("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=config.get_int("controller.quorum.fetch.snapshot.max.bytes"),
        auto_join=bool(config.get("controller.quorum.auto.join.enable")),
        # Kafka's 500 ms; a leader that has nothing to say must still answer before its silence counts.
        fetch_max_wait_ms=min(500, config.controller_quorum_fetch_timeout_ms // 2),
    )


def _servers(config: BrokerConfig) -> tuple[str, ...]:
    return cast("tuple[str, ...]", config.get("controller.quorum.bootstrap.servers"))


def static_voters(voters: tuple[str, ...], listener: str) -> VoterSet:
    """From id@host:port entries. `listener` is the controllers' name for it: the first of controller.listener.names."""
    ids = voter_ids(voters)
    if len(set(ids)) != len(ids):
        raise OttlaError(f"the voters {','.join(voters)} name a node twice: give each controller a node.id of its own")
    endpoints = {}
    for id, voter in zip(ids, voters, strict=True):
        host, port = _address(voter.partition("@")[2], "voters of the quorum")
        endpoints[id] = Endpoint(listener, host, port)
    return VoterSet.static(ids, endpoints)


def bootstrap_servers(servers: Sequence[str], voters: VoterSet, my_id: int, listener: str) -> list[Destination]:
    """Whom a replica asks as long as it knows no leader: the configured servers, else the other static voters."""
    if servers:
        found = [_address(server, "bootstrap servers of the quorum") for server in servers]
        return [Destination(_FIRST_BOOTSTRAP_ID - i, host, port) for i, (host, port) in enumerate(found)]
    others = [node for node in voters.nodes.values() if node.key.id != my_id]
    return [
        Destination(node.key.id, endpoint.host, endpoint.port)
        for node in others
        if (endpoint := node.endpoint(listener)) is not None
    ]


def _address(text: str, of: str) -> tuple[str, int]:
    found = split_host_port(text.strip())
    if found is None:
        raise OttlaError(f"{of}: {text!r} is not host:port")
    return found
