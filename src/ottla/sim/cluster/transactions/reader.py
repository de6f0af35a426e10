"""A consumer of committed records: it stops at the last stable offset, and leaves out what was aborted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from ottla.log.scan import COMMIT, CONTROL_KEY
from ottla.model.errors import ErrorCode
from ottla.record.reader import iterate_batches, read_records
from ottla.sim.cluster.cast import Cast
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.oracle import NOBODY
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import FETCH, KnownTopic, NoAnswer

_VERSION: Final = 13
_COMMITTED: Final = 1

Take = Callable[[int, int, bytes], None]
"""Partition, offset, value."""


class CommittedReader:
    def __init__(
        self, client: ClusterClient, topic: KnownTopic, take: Take, stable: Callable[[int], None], *, max_bytes: int
    ) -> None:
        self.positions = dict.fromkeys(range(topic.partitions), 0)
        self._client = client
        self._topic = topic
        self._take = take
        self._stable = stable
        self._max_bytes = max_bytes
        self._ends = dict.fromkeys(self.positions, 0)  # the highest that was told: a new leader may be behind

    async def run(self) -> None:
        while not self._client.stopping:
            await self.poll()
            await self._client.pause(0.0, 0.3)

    def has_all(self, cast: Cast) -> bool:
        """Up to the ends of the leaders' logs: then no transaction is open any more."""
        for number, position in self.positions.items():
            leader = cast.leader(PartitionId(self._topic.id, number))
            if leader is None or position < leader.log.end_offset:
                return False
        return True

    async def poll(self) -> None:
        keys = [PartitionId(self._topic.id, number) for number in self.positions]
        by_leader = self._client.by_leader(keys)
        good = await asyncio.gather(
            *(self._fetch(leader, theirs) for leader, theirs in by_leader.items() if leader != NOBODY)
        )
        if NOBODY in by_leader or not all(good):
            await self._client.pause(0.02, 0.2)
            await self._client.refresh()

    async def _fetch(self, leader: int, keys: list[PartitionId]) -> bool:
        try:
            answer = await self._client.ask(leader, FETCH, _VERSION, self._request(keys))
        except NoAnswer:
            return False
        good = answer.error_code is ErrorCode.none
        for topic in answer.responses:
            for row in topic.partitions:
                if row.error_code is ErrorCode.none:
                    self._read(row)
                else:
                    self._client.oracle.counts[f"fetch of committed: {row.error_code.name}"] += 1
                    good = False
        return good

    def _request(self, keys: list[PartitionId]) -> dict[str, Any]:
        rows = [
            {
                "partition": key.partition,
                "current_leader_epoch": self._client.leaders[key].epoch,
                "fetch_offset": self.positions[key.partition],
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": self._max_bytes,
            }
            for key in keys
        ]
        return {
            "replica_id": -1, "max_wait": timedelta(seconds=0.2), "min_bytes": 1, "max_bytes": self._max_bytes * 3,
            "isolation_level": _COMMITTED, "session_id": 0, "session_epoch": -1,
            "topics": [{"topic_id": self._topic.id, "partitions": rows}], "forgotten_topics_data": [],
        }  # fmt: skip

    def _read(self, row: Any) -> None:
        oracle, number = self._client.oracle, row.partition_index
        name = f"{self._client.name}, {self._topic.name}-{number}"
        if row.last_stable_offset > row.high_watermark:
            oracle.complain(f"{name}: {row.last_stable_offset} is stable, {row.high_watermark} committed")
        began = {each.first_offset: each.producer_id for each in row.aborted_transactions or ()}
        aborted: set[int] = set()
        for header, batch in iterate_batches(row.records or b""):
            if header.next_offset > row.last_stable_offset:
                oracle.complain(f"{name}: got {header.next_offset - 1}, but {row.last_stable_offset} is not stable yet")
            aborted |= {began.pop(first) for first in list(began) if first <= header.base_offset}
            if header.next_offset <= self.positions[number]:
                continue  # an answer begins with a whole batch
            if header.is_control:
                if CONTROL_KEY.unpack_from(read_records(batch)[0].key or b"")[1] != COMMIT:
                    aborted.discard(header.producer_id)
            elif not header.is_transactional or header.producer_id not in aborted:
                for record in read_records(batch):
                    if record.offset >= self.positions[number]:
                        self._take(number, record.offset, record.value or b"")
                        oracle.counts["committed records read"] += 1
            else:
                oracle.counts["aborted records left out"] += header.last_offset_delta + 1
            self.positions[number] = header.next_offset
        self._ends[number] = max(self._ends[number], row.high_watermark)
        # else a transaction is open, or this leader does not know yet what is committed: of others that have ended a
        # part may lie beyond
        if self.positions[number] >= row.last_stable_offset >= self._ends[number]:
            self._stable(number)
