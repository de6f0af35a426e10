"""A member by the consumer protocol (KIP-848): one heartbeat says what it has and brings what it shall have."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from ottla.model.errors import ErrorCode
from ottla.model.ids import uuid_text
from ottla.sim.cluster.groups.member import HEARTBEAT_S, REBALANCE_S, GroupState, Member
from ottla.sim.log_files import PartitionId

HEARTBEAT: Final = 68
_VERSION: Final = 1
_JOINS, _LEAVES = 0, -1
_AGAIN: Final = (ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch, ErrorCode.group_id_not_found)
"""Nobody knows it any more; not even the group, if its coordinator has lost it with the power."""


class ConsumerMember(Member):
    def __init__(self, state: GroupState, name: str) -> None:
        super().__init__(state, name)
        self._next_heartbeat = 0.0
        self._wanted: set[PartitionId] = set()
        self._is_new = True
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._give_back(self._given)
        self._wanted = set()
        self.generation = _JOINS
        self._is_new = True
        self.member_id = self.member_id or uuid_text(UUID(int=self.client.random.getrandbits(128), version=4))

    async def _go_on(self) -> bool:
        now = self.client.oracle.now()
        self._give_back(self._given - self._wanted)
        if self.generation > 0 and now < self._next_heartbeat and self._wanted == self.owned:
            return True
        if not self._is_new and not await self._begin_to_read():
            await self.client.pause(0.05, 0.3)
        self._next_heartbeat = now + HEARTBEAT_S
        try:
            answer = await self.coordinator.ask(HEARTBEAT, _VERSION, self._heartbeat(whole=True))
        except Exception:
            self._is_new = self._is_new or self.generation == _JOINS
            raise
        if not self.coordinator.told("consumer heartbeat", answer.error_code):
            if answer.error_code in _AGAIN:
                self._begin_anew()
            await self.client.pause(0.05, 0.3)
            return False
        self.state.ownership.is_heard(self.member_id, now)
        self.client.oracle.counts["epochs of consumer groups seen"] += answer.member_epoch != self.generation
        self.generation, self._is_new = answer.member_epoch, False
        if answer.assignment is not None:
            self._wanted = {
                PartitionId(row.topic_id, number)
                for row in answer.assignment.topic_partitions
                for number in row.partitions
            }
            self._is_given(self._wanted)
            self._next_heartbeat = now if self._wanted != self.owned else self._next_heartbeat
        return True

    def _heartbeat(self, *, whole: bool) -> dict[str, Any]:
        rows: dict[UUID, list[int]] = {}
        for key in sorted(self.owned):
            rows.setdefault(key.topic_id, []).append(key.partition)
        return {
            "group_id": self.state.group,
            "member_id": self.member_id,
            "member_epoch": self.generation,
            "instance_id": None,
            "rack_id": None,
            "rebalance_timeout": timedelta(seconds=REBALANCE_S),
            "subscribed_topic_names": [topic.name for topic in self.state.topics] if whole else None,
            "subscribed_topic_regex": None,
            "server_assignor": None,
            "topic_partitions": [{"topic_id": topic, "partitions": numbers} for topic, numbers in rows.items()],
        }

    async def _leave(self) -> None:
        self._give_back(self._given)
        if not self._is_new:
            self.generation = _LEAVES
            await self.coordinator.ask(HEARTBEAT, _VERSION, self._heartbeat(whole=False))
