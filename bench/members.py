"""Members of groups that speak the protocol by hand: a thousand of them fit into one process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from typing import Any, Final, TypeVar, cast

from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.model.errors import ErrorCode
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection

JOIN, HEARTBEAT, LEAVE, SYNC = (11, 9), (12, 4), (13, 5), (14, 5)
FIND_COORDINATOR: Final = (10, 6)
CONSUMER_HEARTBEAT: Final = (68, 1)
PATIENCE_S: Final = 120.0
_RETRIED: Final = frozenset(
    {ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_not_available, ErrorCode.not_coordinator}
)  # the last on both sides for a moment after the topic was created
_SESSION: Final = timedelta(seconds=45)
_REBALANCE: Final = timedelta(seconds=60)
_NOT_CHANGED: Final = timedelta(milliseconds=-1)
T = TypeVar("T")


async def dial(port: int) -> Connection:
    nothing = cast(Any, None)
    env = Env(clock=nothing, disk=nothing, network=TcpNetwork(), executor=nothing, random=nothing)
    return await Connection.open(env, "127.0.0.1", port)


async def ask(connection: Connection, api: tuple[int, int], **values: Any) -> Any:
    return await connection.call(build(request_type(*api), values), within=PATIENCE_S)


async def all_of(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    async with asyncio.timeout(PATIENCE_S):
        return list(await asyncio.gather(*jobs))


async def find_coordinator(connection: Connection, group_ids: list[str]) -> None:
    """Until there is one for each."""
    while True:
        answer = await ask(connection, FIND_COORDINATOR, key_type=0, coordinator_keys=group_ids)
        if all(found.error_code is ErrorCode.none for found in answer.coordinators):
            return
        await asyncio.sleep(0.05)


class ClassicMember:
    """Its subscription and its share are bytes that no broker looks into."""

    def __init__(self, connection: Connection, group_id: str, subscription: bytes, share: bytes) -> None:
        self.connection = connection
        self.id = ""
        self.generation = -1
        self._group_id = group_id
        self._subscription = subscription
        self._share = share

    async def take_part(self) -> None:
        """Joins and has its share; begins anew while others come and go."""
        while True:
            joined = await self._join()
            code = joined.error_code
            if code is ErrorCode.member_id_required:
                self.id = joined.member_id
            elif code is ErrorCode.none:
                self.id, self.generation = joined.member_id, joined.generation_id
                members = joined.members if joined.leader == self.id else ()
                code = await self._sync(members)
                if code is ErrorCode.none:
                    return
            if code in _RETRIED:
                await asyncio.sleep(0.05)

    async def beat_until_told(self, interval: float) -> None:
        """Until a heartbeat says that the group rebalances."""
        while True:
            await asyncio.sleep(interval)
            answer = await self._ask(HEARTBEAT, generation_id=self.generation)
            if answer.error_code is not ErrorCode.none:
                return

    async def leave(self) -> None:
        members = [{"member_id": self.id, "group_instance_id": None, "reason": "done"}]
        await self._ask(LEAVE, members=members)

    async def _join(self) -> Any:
        return await self._ask(
            JOIN,
            session_timeout=_SESSION,
            rebalance_timeout=_REBALANCE,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": self._subscription}],
            reason=None,
        )

    async def _sync(self, members: Iterable[Any]) -> ErrorCode:
        answer = await self._ask(
            SYNC,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": member.member_id, "assignment": self._share} for member in members],
        )
        code: ErrorCode = answer.error_code
        return code

    async def _ask(self, api: tuple[int, int], **values: Any) -> Any:
        given = {"group_id": self._group_id, "member_id": self.id, "group_instance_id": None}
        return await ask(self.connection, api, **given, **values)


class ConsumerMember:
    """The consumer protocol: what it is told to give up it gives up at once, and says so."""

    def __init__(self, connection: Connection, group_id: str, topic: str) -> None:
        self.connection = connection
        self.id = str(uuid.uuid4())
        self.epoch = 0
        self.owned: dict[Any, tuple[int, ...]] = {}
        self._group_id = group_id
        self._topic = topic
        self._interval = 1.0
        self._has_news = True

    @property
    def partitions(self) -> int:
        return sum(map(len, self.owned.values()))

    async def live(self) -> None:
        while True:
            if not self._has_news:
                await asyncio.sleep(self._interval)
            await self.beat()

    async def beat(self) -> None:
        is_first = self.epoch == 0
        says_all, self._has_news = self._has_news, False
        answer = await self._ask(
            rebalance_timeout=_REBALANCE if is_first else _NOT_CHANGED,
            subscribed_topic_names=[self._topic] if is_first else None,
            topic_partitions=self._told() if says_all else None,
        )
        if answer.error_code in _RETRIED:
            self._has_news = True
            await asyncio.sleep(0.05)
            return
        if answer.error_code is not ErrorCode.none:
            raise RuntimeError(f"a member was refused: {answer.error_code.name}: {answer.error_message}")
        self.epoch = answer.member_epoch
        self._interval = answer.heartbeat_interval.total_seconds()
        if answer.assignment is not None:
            owned = {row.topic_id: row.partitions for row in answer.assignment.topic_partitions}
            self._has_news = owned != self.owned
            self.owned = owned

    async def leave(self) -> None:
        self.epoch = -1
        await self._ask(rebalance_timeout=_NOT_CHANGED, subscribed_topic_names=None, topic_partitions=None)

    def _told(self) -> list[dict[str, Any]]:
        return [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in self.owned.items()]

    async def _ask(self, **values: Any) -> Any:
        given = {"group_id": self._group_id, "member_id": self.id, "member_epoch": self.epoch, "server_assignor": None}
        return await ask(
            self.connection,
            CONSUMER_HEARTBEAT,
            **given,
            instance_id=None,
            rack_id=None,
            subscribed_topic_regex=None,
            **values,
        )
