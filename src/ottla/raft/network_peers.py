"""The way to the other replicas over TCP: one connection to each, opened when it is needed."""

from __future__ import annotations

import logging
from typing import Any, Final

from ottla.env.backoff import Backoff
from ottla.env.ports import Env
from ottla.model.errors import ErrorCode, OttlaError
from ottla.raft.messages import (
    Destination,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from ottla.raft.node import Gone
from ottla.record.records import CorruptBatch
from ottla.wire.client import Connection, ConnectionFailed
from ottla.wire.link import Link

_log = logging.getLogger("ottla.raft")
_FIRST_WITH_PRE_VOTES: Final = 2  # version of Vote
_AT_ONCE: Final = Backoff(0, 0)  # the quorum rests by itself


class NetworkPeers:
    """A replica asks one thing of another at a time, so answers never wait behind a Fetch that waits for records."""

    def __init__(self, env: Env, listener: str, client_id: str, request_timeout_ms: int) -> None:
        self._env = env
        self._listener = listener
        self._client_id = client_id
        self._within = request_timeout_ms / 1000
        self._links: dict[Destination, Link] = {}

    async def ask(self, to: Destination, request: Request) -> Response | None:
        from ottla.raft import rpc, rpc_versions  # with the first question: a node that is alone has none

        try:
            entity = rpc.request_entity(request)
        except rpc.NotOnTheWire as error:
            _log.debug("%s", error)
            return None
        link = self._link(to)
        try:
            was_open = link.is_open
            try:
                version = _common_version(entity, await link.connection())
                if version is None or (version < _FIRST_WITH_PRE_VOTES and _is_pre_vote(request)):
                    return _unsupported(request)
                answer = await link.call(rpc_versions.older_request(entity, version), within=self._within)
            except ConnectionFailed:
                if was_open:
                    # Its process may be gone, or only the connection: dialling tells. Nothing is asked twice.
                    await link.connection()
                raise
            return rpc.response_of(rpc_versions.newest_response(answer), self._listener)
        except (OttlaError, rpc.WrongPartition, rpc.NotOnTheWire, CorruptBatch) as error:
            _log.debug("%s to node %d at %s:%d: %s", type(request).__name__, to.id, to.host, to.port, error)
            if isinstance(error.__cause__, ConnectionRefusedError):
                raise Gone from error
            if not isinstance(error, ConnectionFailed):
                await link.close()
            return None

    async def close(self) -> None:
        while self._links:
            await self._links.popitem()[1].close()

    def _link(self, to: Destination) -> Link:
        link = self._links.get(to)
        if link is None:
            link = Link(
                self._env,
                to.host,
                to.port,
                self._client_id,
                backoff=_AT_ONCE,
                connect_within=self._within,
                negotiates=True,
            )
            self._links[to] = link
        return link


def _common_version(entity: Any, connection: Connection) -> int | None:
    """The newest that both know, or None if there is none: a quorum is upgraded node by node."""
    key, newest = int(entity.__api_key__), int(entity.__version__)
    offered = connection.versions.get(key)
    if offered is None or offered.oldest > newest:
        return None
    return min(offered.newest, newest)


def _is_pre_vote(request: Request) -> bool:
    return isinstance(request, VoteRequest) and request.pre_vote


def _unsupported(request: Request) -> Response | None:
    """As Kafka's channel says it itself, where nothing can be sent."""
    match request:
        case VoteRequest():
            return VoteResponse(error=ErrorCode.unsupported_version)
        case UpdateVoterRequest():
            return UpdateVoterResponse(error=ErrorCode.unsupported_version)
    return None
