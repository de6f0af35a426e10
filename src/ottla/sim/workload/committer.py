"""Commits how far a group has come, and looks whether that is what it finds: a register with one writer."""

from __future__ import annotations

from typing import Final

from ottla.model.errors import ErrorCode
from ottla.sim.workload.client import Client, KnownTopic, NoAnswer

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
_COMMIT_VERSION: Final = 9
_FETCH_VERSION: Final = 9
_FIND_VERSION: Final = 4
_NOTHING: Final = -1


class Committer:
    """The only one who commits for its group, and for one partition alone."""

    def __init__(self, client: Client, topic: KnownTopic, partition: int) -> None:
        self._client = client
        self._group = f"group of {client.name}"
        self._topic = topic
        self._partition = partition
        self._next = 0
        self._kept = _NOTHING
        self._kept_in_life = 0
        self._earlier: set[int] = {_NOTHING}  # what has been acknowledged before, and may be back after a loss of power
        self._maybe: set[int] = set()  # nobody knows of these, and one may be carried out late

    async def run(self) -> None:
        while not self._client.stopping:
            await self._commit()
            if self._client.random.random() < 0.3:
                await self._look()
            await self._client.pause(0.01, 0.2)
        while not await self._look():
            await self._client.pause(0.05, 0.3)

    async def _commit(self) -> None:
        offset = self._next
        self._next += 1
        self._maybe.add(offset)
        row = {
            "partition_index": self._partition, "committed_offset": offset, "committed_leader_epoch": -1,
            "committed_metadata": "",
        }  # fmt: skip
        values = {
            "group_id": self._group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
            "topics": [{"name": self._topic.name, "partitions": [row]}],
        }  # fmt: skip
        try:
            answer, life = await self._client.ask(OFFSET_COMMIT, _COMMIT_VERSION, values)
        except NoAnswer:
            return
        code = answer.topics[0].partitions[0].error_code
        if code is not ErrorCode.none:
            self._client.history.counts[f"offset commit: {code.name}"] += 1
            await self._find_coordinator()
            return
        self._client.history.counts["offsets committed"] += 1
        self._maybe.discard(offset)
        self._earlier.add(self._kept)
        self._kept, self._kept_in_life = offset, life

    async def _look(self) -> bool:
        """False if there was no answer to look at."""
        wanted = [{"name": self._topic.name, "partition_indexes": [self._partition]}]
        group = {"group_id": self._group, "member_id": None, "member_epoch": -1, "topics": wanted}
        stable = self._client.random.random() < 0.5
        try:
            answer, life = await self._client.ask(
                OFFSET_FETCH, _FETCH_VERSION, {"groups": [group], "require_stable": stable}
            )
        except NoAnswer:
            return False
        (found,) = answer.groups
        if found.error_code is not ErrorCode.none:
            await self._find_coordinator()
            return False
        self._client.history.counts["committed offsets found"] += 1
        self._judge(found.topics[0].partitions[0].committed_offset, life)
        return True

    def _judge(self, offset: int, life: int) -> None:
        if offset == self._kept or offset in self._maybe:
            return
        history = self._client.history
        if history.lost_power_since(self._kept_in_life) and offset in self._earlier:
            self._kept, self._kept_in_life = offset, life
            history.counts["committed offsets lost with the power"] += 1
            return
        history.complain(
            f"{self._group} finds {offset} committed in {self._topic.name}-{self._partition}; {self._kept} was"
            f" acknowledged in life {self._kept_in_life}, {sorted(self._maybe)} may be"
        )

    async def _find_coordinator(self) -> None:
        """The first who asks has the topic made."""
        try:
            await self._client.ask(FIND_COORDINATOR, _FIND_VERSION, {"key_type": 0, "coordinator_keys": [self._group]})
        except NoAnswer:
            return
