"""Members of a group that speak the protocol by hand, in any version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, cast

from tests.broker.apis import asking
from tests.waiting import PATIENCE_S, attempts

from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.model.errors import ErrorCode
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection

RANGE = [{"name": "range", "metadata": b"subscription"}]


def await_coordinator(address: str, group_id: str) -> None:
    """Until the group's coordinator is known and has been loaded."""
    for _ in attempts(f"the coordinator of {group_id} is there"):
        values = {"key": group_id, "key_type": 0, "coordinator_keys": [group_id]}
        found = asking.ask(address, asking.FIND_COORDINATOR, 6, **values).coordinators[0].error_code
        if found is ErrorCode.none:
            described = asking.ask(
                address, asking.DESCRIBE_GROUPS, 0, groups=[group_id], include_authorized_operations=False
            )
            if described.groups[0].error_code is ErrorCode.none:
                return


class Member:
    """One connection, as a client has it for its group."""

    def __init__(self, connection: Connection, group_id: str, instance_id: str | None = None) -> None:
        self.connection = connection
        self.group_id = group_id
        self.instance_id = instance_id
        self.id = ""
        self.generation = -1

    async def ask(self, api: int, version: int, **values: Any) -> Any:
        given = {"group_id": self.group_id, "member_id": self.id, "group_instance_id": self.instance_id}
        return await self.connection.call(build(request_type(api, version), given | values), within=PATIENCE_S)

    async def join(self, version: int = 9, **values: Any) -> Any:
        given = {
            "session_timeout": timedelta(seconds=60), "rebalance_timeout": timedelta(seconds=30),
            "protocol_type": "consumer", "protocols": RANGE, "reason": None,
        }  # fmt: skip
        answer = await self.ask(asking.JOIN_GROUP, version, **given | values)
        if answer.error_code is ErrorCode.member_id_required:
            self.id = answer.member_id
            answer = await self.ask(asking.JOIN_GROUP, version, **given | values)
        if answer.error_code is ErrorCode.none:
            self.id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def sync(self, version: int = 5, shares: dict[str, bytes] | None = None, **values: Any) -> Any:
        assignments = [{"member_id": who, "assignment": share} for who, share in (shares or {}).items()]
        given = {
            "generation_id": self.generation, "protocol_type": "consumer", "protocol_name": "range",
            "assignments": assignments,
        }  # fmt: skip
        return await self.ask(asking.SYNC_GROUP, version, **given | values)

    async def heartbeat(self, version: int = 4, **values: Any) -> ErrorCode:
        answer = await self.ask(asking.HEARTBEAT, version, **{"generation_id": self.generation} | values)
        return cast(ErrorCode, answer.error_code)

    async def leave(self, version: int = 5, **values: Any) -> Any:
        members = [{"member_id": self.id, "group_instance_id": self.instance_id, "reason": "done"}]
        return await self.ask(asking.LEAVE_GROUP, version, **{"members": members} | values)


@asynccontextmanager
async def members(
    address: str, group_id: str, count: int, *, instances: tuple[str, ...] = (), client_id: str = "test"
) -> AsyncIterator[list[Member]]:
    host, _, port = address.rpartition(":")
    nothing = cast(Any, None)
    env = Env(clock=nothing, disk=nothing, network=TcpNetwork(), executor=nothing, random=nothing)
    opened = [await Connection.open(env, host, int(port), client_id) for _ in range(count)]
    try:
        names: list[str | None] = [*instances, *[None] * (count - len(instances))]
        yield [Member(connection, group_id, name) for connection, name in zip(opened, names, strict=True)]
    finally:
        await asyncio.gather(*[connection.close() for connection in opened])
