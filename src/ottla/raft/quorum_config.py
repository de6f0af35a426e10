"""Who forms the quorum and where to ask for it, as the configs about voters and bootstrap servers say it."""

from collections.abc import Sequence

from ottla.model.config.broker import voter_ids
from ottla.model.config.validators import split_host_port
from ottla.model.errors import OttlaError
from ottla.raft.messages import Destination
from ottla.raft.voters import Endpoint, VoterSet

_FIRST_BOOTSTRAP_ID = -2


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
