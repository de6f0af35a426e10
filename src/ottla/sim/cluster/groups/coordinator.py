"""A client's way to the coordinator of a group, which moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.oracle import NOBODY
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import NoAnswer

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
OFFSETS_TOPIC: Final = "__consumer_offsets"
_COMMIT_VERSION: Final = 9
_FETCH_VERSION: Final = 9
_FIND_VERSION: Final = 4
_GROUP: Final = 0
_MOVED: Final = (
    ErrorCode.not_coordinator, ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress,
)  # fmt: skip


class Coordinator:
    def __init__(self, client: ClusterClient, group: str) -> None:
        self.client = client
        self.group = group
        self._node = NOBODY
        self._before = NOBODY
        """Who was it when somebody was found last."""

    async def ask(self, key: int, version: int, values: Mapping[str, Any]) -> Any:
        """NoAnswer if there was none, or if nobody knows who coordinates."""
        if self._node == NOBODY:
            await self.find()
        try:
            return await self.client.ask(self._node, key, version, values)
        except NoAnswer:
            self._node = NOBODY
            raise

    async def find(self) -> None:
        answer = await self.client.ask_any(
            FIND_COORDINATOR, _FIND_VERSION, {"key_type": _GROUP, "coordinator_keys": [self.group]}
        )
        (row,) = answer.coordinators
        if row.error_code is not ErrorCode.none:
            self.client.oracle.counts[f"find coordinator: {row.error_code.name}"] += 1
            raise NoAnswer(row.error_code.name)
        self._node = int(row.node_id)
        if self._before not in (NOBODY, self._node):
            self.client.oracle.counts["coordinators that moved"] += 1
        self._before = self._node
        self.client.learn(self._node, (row.host, row.port))

    def told(self, api: str, code: ErrorCode) -> bool:
        """Whether all is well; otherwise it is counted, and another coordinator is looked for if that is why."""
        if code is ErrorCode.none:
            return True
        self.client.oracle.counts[f"{api}: {code.name}"] += 1
        if code in _MOVED:
            self._node = NOBODY
        return False

    async def commit(
        self,
        offsets: Mapping[PartitionId, int],
        names: Mapping[PartitionId, str],
        member: str = "",
        generation: int = -1,
    ) -> dict[PartitionId, ErrorCode]:
        topics: dict[str, dict[str, Any]] = {}
        for key, offset in offsets.items():
            row = {
                "partition_index": key.partition, "committed_offset": offset, "committed_leader_epoch": -1,
                "committed_metadata": "",
            }  # fmt: skip
            topics.setdefault(names[key], {"name": names[key], "partitions": []})["partitions"].append(row)
        request = {
            "group_id": self.group, "generation_id_or_member_epoch": generation, "member_id": member,
            "group_instance_id": None, "topics": list(topics.values()),
        }  # fmt: skip
        answer = await self.ask(OFFSET_COMMIT, _COMMIT_VERSION, request)
        codes = {
            (topic.name, row.partition_index): row.error_code for topic in answer.topics for row in topic.partitions
        }
        found = {key: codes[names[key], key.partition] for key in offsets}
        for code in found.values():
            self.told("offset commit", code)
        return found

    async def committed(
        self,
        keys: Sequence[PartitionId],
        names: Mapping[PartitionId, str],
        member: str | None = None,
        generation: int = -1,
    ) -> dict[PartitionId, int] | None:
        """-1 where nothing is; None after an error."""
        topics: dict[str, list[int]] = {}
        for key in keys:
            topics.setdefault(names[key], []).append(key.partition)
        wanted = [{"name": name, "partition_indexes": numbers} for name, numbers in topics.items()]
        group = {"group_id": self.group, "member_id": member, "member_epoch": generation, "topics": wanted}
        answer = await self.ask(OFFSET_FETCH, _FETCH_VERSION, {"groups": [group], "require_stable": True})
        (found,) = answer.groups
        if not self.told("offset fetch", found.error_code):
            return None
        rows = {(topic.name, row.partition_index): row for topic in found.topics for row in topic.partitions}
        if any(not self.told("offset fetch", row.error_code) for row in rows.values()):
            return None
        return {key: rows[names[key], key.partition].committed_offset for key in keys}
