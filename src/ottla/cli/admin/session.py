"""What commands ask of a cluster, by Kafka's own requests, over one connection to each broker that is asked.

Versions are fixed where every broker since Kafka 2.8 has them: asking first would cost a round trip. What came later is
asked for where a broker offers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from ottla.cli.admin.moving import MOVING, BrokerGone, Moving
from ottla.cli.cluster_options import Address, Cluster
from ottla.env.network import TcpNetwork
from ottla.model.errors import ErrorCode, OttlaError
from ottla.wire.client import Connection, ConnectionFailed, RequestTimedOut

if TYPE_CHECKING:
    from ottla.env.ports import Env

T = TypeVar("T")
CONNECT_WITHIN_S: Final = 5.0
_METADATA: Final = 3


class _NetworkOnly:
    """All that a connection asks of its world; a whole one would import the process pool for nothing."""

    network = TcpNetwork()


def run(cluster: Cluster, ask: Callable[[Session], Awaitable[T]]) -> T:
    """Connects to the first address that answers and asks there."""
    _check_plain(cluster)

    async def session() -> T:
        opened = Session(cluster, await _connect_to_any(cluster))
        try:
            return await ask(opened)
        except BrokerGone:
            if not opened.has_heard:
                await _check_is_broker(cluster)
            raise
        finally:
            await opened.close()

    return _run(session())


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, but Ctrl-C is a KeyboardInterrupt at once: a question may be waiting for its answer."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(work)
    try:
        return loop.run_until_complete(task)
    finally:
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                loop.run_until_complete(task)
        loop.close()


def _check_plain(cluster: Cluster) -> None:
    protocol = dict(cluster.properties).get("security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise OttlaError(f"this command cannot speak {protocol} yet, which the profile asks for: only PLAINTEXT")


class Session:
    """Requests go to the broker that was reached first, or another where that has gone, unless they say to which."""

    def __init__(self, cluster: Cluster, first: Connection) -> None:
        self.cluster = cluster
        self.brokers: dict[int, Address] = {}  # as the last metadata had them
        self.coordinators: dict[str, int] = {}  # of groups, as they were found
        self._first = first
        self._heard: set[str] = set()  # who has answered something
        self._others: dict[int, Connection] = {}
        self._met: dict[Address, None] = dict.fromkeys(cluster.bootstrap)  # whoever could take the place of the first

    @property
    def has_heard(self) -> bool:
        """Whether anybody has answered anything."""
        return bool(self._heard)

    async def call(self, request: Any, *, broker: int | None = None, longer_s: float = 0.0) -> Any:
        """`longer_s` is what the broker itself may take, on top of the time that any answer may take."""
        connection = await self._to(broker)
        within_s = self.cluster.timeout_s + longer_s
        try:
            with _answered(connection, within_s, has_before=connection.peer in self._heard):
                answer = await connection.call(request, within=within_s)
        except NotAnswered:
            await connection.close()  # whatever came next there would wait behind this: brokers answer in order
            raise
        self._heard.add(connection.peer)
        return answer

    async def newest(self, key: int, wanted: int, *, broker: int | None = None) -> int | None:
        """The newest version of an API that the broker has, up to the wanted one; None if it does not have the API."""
        connection = await self._to(broker)
        if not connection.versions:
            with _answered(connection, self.cluster.timeout_s):
                await connection.negotiate(within=self.cluster.timeout_s)
            self._heard.add(connection.peer)
        offered = connection.versions.get(key)
        return None if offered is None or offered.oldest > wanted else min(offered.newest, wanted)

    def forget(self) -> None:
        """Who leads and coordinates what: it will be asked anew."""
        self._met |= dict.fromkeys(self.brokers.values())
        self.brokers = {}
        self.coordinators = {}

    async def _to(self, broker: int | None) -> Connection:
        if broker is None:
            if self._first.is_closed:
                met = (*self._met, *self.brokers.values())
                self._first = await _connect_to_any(self.cluster._replace(bootstrap=tuple(dict.fromkeys(met))))
            return self._first
        known = self._others.get(broker)
        if known is None or known.is_closed:
            if broker not in self.brokers:
                # It may have led, or coordinated, a moment ago.
                raise BrokerGone(f"there is no broker {broker}; there are {', '.join(map(str, sorted(self.brokers)))}")
            address = self.brokers[broker]
            try:
                known = self._others[broker] = await _connect(address, self.cluster.timeout_s)
            except ConnectionFailed as error:
                raise BrokerGone(
                    f"broker {broker} cannot be reached at {address}, where the cluster says that it is "
                    f"({_reason(error)})"
                ) from None
        return known

    async def close(self) -> None:
        for connection in (self._first, *self._others.values()):
            await connection.close()


class NotAnswered(OttlaError):
    """Somebody is there and does not answer: for one, a broker that finds no controller to ask."""


@contextmanager
def _answered(connection: Connection, within_s: float, *, has_before: bool = False) -> Iterator[None]:
    try:
        yield
    except RequestTimedOut:
        if has_before:
            raise NotAnswered(
                f"{connection.peer} is there, but has not answered this within {within_s:g} s. If only the controller "
                "can, none may be active: most voters of the metadata quorum must run. A broker that is only slow gets "
                "more time by --timeout."
            ) from None
        raise NotAnswered(
            f"{connection.peer} took the connection and has not answered within {within_s:g} s. Is it a Kafka listener "
            "(and one without TLS)? A broker that finds no active controller, as most voters of the quorum are down, "
            "does not answer either; one that is only slow gets more time by --timeout."
        ) from None
    except ConnectionFailed as error:
        raise BrokerGone(str(error)) from error


async def _connect_to_any(cluster: Cluster) -> Connection:
    reason = ""
    for address in cluster.bootstrap:
        try:
            return await _connect(address, cluster.timeout_s)
        except ConnectionFailed as error:
            reason = _reason(error)
    raise OttlaError(cluster.unreachable(reason))


async def _check_is_broker(cluster: Cluster) -> None:
    """A controller closes the connection when it is asked what only brokers know."""
    async with await _connect_to_any(cluster) as connection:
        with suppress(ConnectionFailed):
            await connection.negotiate(within=cluster.timeout_s)
        if connection.versions and _METADATA not in connection.versions:
            raise OttlaError(
                f"{connection.peer} is a controller, and this command asks brokers: give one with -b. Of controllers, "
                "`ottla cluster quorum` tells."
            )


async def _connect(address: Address, timeout_s: float) -> Connection:
    return await Connection.open(
        cast("Env", _NetworkOnly()), address.host, address.port, "ottla-cli", within=min(timeout_s, CONNECT_WITHIN_S)
    )


def _reason(error: ConnectionFailed) -> str:
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError):  # asyncio puts the address into strerror
        return "connection refused"
    return cause.strerror or str(cause) if isinstance(cause, OSError) else "no answer in time"


class Refusal(NamedTuple):
    code: ErrorCode
    message: str | None

    def __str__(self) -> str:
        return _ADVICE.get(self.code) or self.message or self.code.name.upper()


_ADVICE: Final = {
    ErrorCode.unknown_topic_or_partition: "there is no such topic; `ottla topic list` shows those that are there",
    ErrorCode.topic_already_exists: "a topic of that name is already there",
    ErrorCode.topic_authorization_failed: "you are not allowed to",
    ErrorCode.cluster_authorization_failed: "you are not allowed to",
    ErrorCode.group_authorization_failed: "you are not allowed to",
    ErrorCode.group_id_not_found: "there is no such group; `ottla group list` shows those that are there",
    ErrorCode.non_empty_group: "it has members; stop them first (`ottla group members` shows who they are)",
    ErrorCode.group_subscribed_to_topic: "members of the group read the topic; stop them first",
    ErrorCode.unknown_member_id: "the group has members now; stop them first",
}


def refusal(code: ErrorCode, message: str | None) -> Refusal | None:
    return None if code is ErrorCode.none else Refusal(code, message)


def raise_for(code: ErrorCode, message: str | None, what: str) -> None:
    if code in MOVING:
        raise Moving(f"{what}: {Refusal(code, message)}", code)
    if code is not ErrorCode.none:
        raise OttlaError(f"{what}: {Refusal(code, message)}")
