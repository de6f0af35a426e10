"""How everything in a node reaches the active controller, wherever it is.

Here, if this node's own controller is the active one; else over the network, to whom the quorum names as its leader.
Nobody who asks need care: what meets a controller that is not active (any more), a lost connection or a quorum without
a leader is tried again, at once when a leader is known, until the request's time is up. A request whose connection was
lost may have been carried out all the same, so each must be one that may come twice.

A controller takes one request of a connection at a time. So there are a few connections to it, one for each kind of
request (`Lane`), opened when they are first needed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from ottla.broker.controller_rpc.registry import BY_REQUEST
from ottla.broker.controller_rpc.rpc import Lane, Rpc, check
from ottla.broker.error_codes import errors_in
from ottla.env.backoff import Backoff
from ottla.env.ports import Env
from ottla.metadata.controller.requests import Request
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.raft.messages import Destination
from ottla.wire.build import build, request_type
from ottla.wire.client import ConnectionFailed, RequestTimedOut, VersionRange
from ottla.wire.link import Link

R = TypeVar("R")
_log = logging.getLogger("ottla.broker")
_AGAIN: Final = Backoff(20, 100)
_LONGEST_MS: Final = 60_000  # as Kafka tries


class LocalController(Protocol):
    """The controller of this node, if it has one."""

    @property
    def is_active(self) -> bool: ...
    async def submit(self, request: Request[R]) -> R: ...


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    client_id: str
    heartbeat_ms: int
    """After this a registration or a heartbeat is given up: the next one is due."""
    request_ms: int = 30_000
    connect_ms: int = 10_000

    def limit(self, lane: Lane) -> float:
        return (self.heartbeat_ms if lane is Lane.LIFE else _LONGEST_MS) / 1000


def channel_settings(config: BrokerConfig) -> ChannelSettings:
    return ChannelSettings(
        str(config.node_id),
        config.get_int("broker.heartbeat.interval.ms"),
        config.get_int("controller.socket.timeout.ms"),
        config.get_int("socket.connection.setup.timeout.ms"),
    )


class ControllerIsHere(Exception):
    """What was to be sent away can be asked of this node's own controller."""


class _NotNow(Exception):
    """Why an attempt came to nothing, if another may do better."""


class ControllerChannel:
    """`leader` says who leads the quorum, None while nobody is known to."""

    def __init__(
        self,
        env: Env,
        settings: ChannelSettings,
        leader: Callable[[], Destination | None],
        local: LocalController | None = None,
    ) -> None:
        self.retries = 0
        self._env = env
        self._settings = settings
        self._leader = leader
        self._local = local
        self._to: Destination | None = None
        self._links: dict[Lane, Link] = {}
        self._news = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()

    async def submit(self, request: Request[R]) -> R:
        """The reply, once all that it says is committed. KafkaError REQUEST_TIMED_OUT if no controller gave one."""
        rpc = BY_REQUEST.get(type(request))
        lane = rpc.lane if rpc is not None else Lane.CLIENTS

        async def attempt(within: float) -> R:
            if self._local is not None and self._local.is_active:
                return await self._ask_here(self._local, request)
            if rpc is None:
                raise KafkaError(ErrorCode.not_controller, "only the active controller itself can be asked for this")
            reply: R = await self._ask_there(rpc, request, within)
            return reply

        reply: R = await self._until_answered(lane, self._settings.limit(lane), attempt)
        return reply

    async def call(self, entity: Any, within: float) -> Any:
        """One of Kafka's requests as it is, to the active controller in another process; its answer as it is.

        ControllerIsHere if the own one turns out to be active.
        """

        async def attempt(left: float) -> Any:
            if self._local is not None and self._local.is_active:
                raise ControllerIsHere
            return _answered(await self._send(Lane.CLIENTS, lambda _: entity, left))

        return await self._until_answered(Lane.CLIENTS, within, attempt)

    @property
    def versions(self) -> dict[int, VersionRange] | None:
        """What the active controller offers, as far as it was asked in another process already."""
        link = self._links.get(Lane.CLIENTS)
        return link.versions if link is not None else None

    def leader_changed(self) -> None:
        """To be told when the quorum has another leader, none, or when this node's own controller becomes active.

        Who waits tries again. What is under way to the one that led before need not wait for its answer.
        """
        if self._leader() != self._to:
            self._drop_links()
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def stop(self) -> None:
        self._drop_links()
        await asyncio.gather(*self._closing)

    async def _until_answered(self, lane: Lane, limit: float, attempt: Callable[[float], Any]) -> Any:
        now = self._env.loop.time
        ends, failures = now() + limit, 0
        while True:
            news = self._news  # of what comes while the attempt is made, too
            try:
                return await attempt(max(ends - now(), 0.001))
            except _NotNow as error:
                why = error
            failures += 1
            self.retries += 1
            rest = _AGAIN.seconds(failures, self._env.random)
            if now() + rest >= ends:
                message = f"no active controller has answered within {limit:g} s: {why}"
                raise KafkaError(ErrorCode.request_timed_out, message) from None
            _log.debug("the controller is asked again (%s): %s", lane.value, why)
            try:
                async with asyncio.timeout(rest):
                    await news.wait()
            except TimeoutError:
                pass

    async def _ask_here(self, local: LocalController, request: Request[R]) -> R:
        try:
            return await local.submit(request)
        except KafkaError as error:
            if error.code is ErrorCode.not_controller:
                raise _NotNow(str(error)) from None
            raise

    async def _ask_there(self, rpc: Rpc, request: Request[Any], within: float) -> Any:
        values = rpc.ask(request)
        answer = _answered(
            await self._send(rpc.lane, lambda version: build(request_type(rpc.key, version), values), within, rpc.key)
        )
        check(answer)
        return rpc.reply(request, answer)

    async def _send(self, lane: Lane, entity: Callable[[int], Any], within: float, key: int | None = None) -> Any:
        link = self._link(lane)
        try:
            connection = await link.connection()
            version = connection.best_version(key) if key is not None else -1
            return await link.call(entity(version), within=min(within, self._settings.request_ms / 1000))
        except (ConnectionFailed, RequestTimedOut) as error:
            raise _NotNow(str(error)) from None
        except OttlaError as error:
            raise KafkaError(ErrorCode.unsupported_version, str(error)) from error

    def _link(self, lane: Lane) -> Link:
        to = self._leader()
        if to is None:
            raise _NotNow("the quorum has no leader that is known here")
        if to != self._to:
            self._drop_links()
            self._to = to
        link = self._links.get(lane)
        if link is None:
            link = self._links[lane] = Link(
                self._env,
                to.host,
                to.port,
                self._settings.client_id,
                connect_within=self._settings.connect_ms / 1000,
                negotiates=True,
            )
        return link

    def _drop_links(self) -> None:
        links, self._links, self._to = list(self._links.values()), {}, None
        for link in links:
            task = self._env.loop.create_task(link.close(), name="close connection to controller")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _answered(answer: Any) -> Any:
    if ErrorCode.not_controller in errors_in(answer):
        raise _NotNow("the node that was asked is not the active controller")
    return answer
