"""A member by the classic protocol: joins, is given its share by the leader of the group, heartbeats."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.groups.member import HEARTBEAT_S, REBALANCE_S, SESSION_S, GroupState, Member
from ottla.sim.log_files import PartitionId

JOIN, HEARTBEAT, LEAVE, SYNC = 11, 12, 13, 14
_JOIN_VERSION, _HEARTBEAT_VERSION, _LEAVE_VERSION, _SYNC_VERSION = 9, 4, 5, 5
_PROTOCOL: Final = "halves"
_TYPE: Final = "simulated"  # what only these members understand: to the coordinator it is bytes


class ClassicMember(Member):
    def __init__(self, state: GroupState, name: str) -> None:
        super().__init__(state, name)
        self._next_heartbeat = 0.0

    async def _go_on(self) -> bool:
        if self.generation < 0:
            return await self._join()
        now = self.client.oracle.now()
        if now < self._next_heartbeat:
            return True
        self._next_heartbeat = now + HEARTBEAT_S
        answer = await self.coordinator.ask(HEARTBEAT, _HEARTBEAT_VERSION, self._me())
        if self.coordinator.told("heartbeat", answer.error_code):
            self.state.ownership.is_heard(self.member_id, now)
            return True
        if answer.error_code is ErrorCode.rebalance_in_progress:
            await self._read_and_commit()
            self._lose_generation()
        elif answer.error_code in (ErrorCode.illegal_generation, ErrorCode.unknown_member_id):
            self._lose_generation()
            self.member_id = "" if answer.error_code is ErrorCode.unknown_member_id else self.member_id
        return False

    def _lose_generation(self) -> None:
        self._give_back(self._given)
        self.generation = -1

    def _me(self) -> dict[str, Any]:
        return {
            "group_id": self.state.group, "generation_id": self.generation, "member_id": self.member_id,
            "group_instance_id": None,
        }  # fmt: skip

    async def _join(self) -> bool:
        request = {
            "group_id": self.state.group,
            "session_timeout": timedelta(seconds=SESSION_S),
            "rebalance_timeout": timedelta(seconds=REBALANCE_S),
            "member_id": self.member_id,
            "group_instance_id": None,
            "protocol_type": _TYPE,
            "protocols": [{"name": _PROTOCOL, "metadata": b""}],
            "reason": None,
        }
        answer = await self.coordinator.ask(JOIN, _JOIN_VERSION, request)
        if not self.coordinator.told("join", answer.error_code):
            if answer.error_code is ErrorCode.member_id_required:
                self.member_id = answer.member_id
            elif answer.error_code is ErrorCode.unknown_member_id:
                self.member_id = ""
            await self.client.pause(0.05, 0.3)
            return False
        self.client.oracle.counts["generations of classic groups joined"] += 1
        self.member_id, generation = answer.member_id, answer.generation_id
        shares = self._shares([each.member_id for each in answer.members]) if answer.leader == self.member_id else []
        return await self._sync(generation, shares)

    def _shares(self, members: list[str]) -> list[dict[str, Any]]:
        rows: dict[str, list[tuple[str, int]]] = {member: [] for member in members}
        for number, key in enumerate(self.state.names):
            rows[members[number % len(members)]].append((str(key.topic_id), key.partition))
        return [{"member_id": member, "assignment": json.dumps(each).encode()} for member, each in rows.items()]

    async def _sync(self, generation: int, shares: list[dict[str, Any]]) -> bool:
        sent_at = self.client.oracle.now()
        request = self._me() | {
            "generation_id": generation, "protocol_type": _TYPE, "protocol_name": _PROTOCOL, "assignments": shares,
        }  # fmt: skip
        answer = await self.coordinator.ask(SYNC, _SYNC_VERSION, request)
        if not self.coordinator.told("sync", answer.error_code):
            if answer.error_code is ErrorCode.unknown_member_id:
                self.member_id = ""
            return False
        self.generation = generation
        self._next_heartbeat = sent_at + HEARTBEAT_S
        self.state.ownership.is_heard(self.member_id, sent_at)
        self._is_given([PartitionId(UUID(topic), number) for topic, number in json.loads(answer.assignment or b"[]")])
        if not await self._begin_to_read():
            self._lose_generation()
            return False
        return True

    async def _leave(self) -> None:
        self._give_back(self._given)
        if self.member_id:
            members = [{"member_id": self.member_id, "group_instance_id": None, "reason": None}]
            request = {"group_id": self.state.group, "members": members}
            await self.coordinator.ask(LEAVE, _LEAVE_VERSION, request)
