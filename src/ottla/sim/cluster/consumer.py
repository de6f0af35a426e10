"""A consumer by assignment that follows the leaders, reads everything, and looks closely at what it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.model.errors import ErrorCode
from ottla.record.batch import computed_crc
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import CorruptBatch, Record
from ottla.replica.fetch_wire import AnswerRow, read_head, read_rows
from ottla.sim.cluster.cast import Cast
from ottla.sim.cluster.client import ClusterClient, Leader
from ottla.sim.cluster.oracle import NOBODY
from ottla.sim.log_files import PartitionId
from ottla.sim.workload import fetching
from ottla.sim.workload.client import FETCH, LIST_OFFSETS, KnownTopic, NoAnswer

_LIST_OFFSETS_VERSION: Final = 7
_EARLIEST: Final = -2


@dataclass(slots=True)
class Place:
    """Where this consumer is in one partition."""

    topic: str
    id: PartitionId
    position: int = 0
    since: float = 0.0
    """When the position was last known to be in the log."""
    high_watermark: tuple[Leader, int] = (Leader(), -1)


class Consumer:
    def __init__(self, client: ClusterClient, *, max_wait_s: float, max_bytes: int, rest_s: float = 0.0) -> None:
        """`rest_s` is how long, at most, it does something else between two polls."""
        self._client = client
        self._rest_s = rest_s
        self._max_wait_s = max_wait_s
        self._max_bytes = max_bytes
        self.places: dict[PartitionId, Place] = {}

    def assign(self, topics: Iterable[KnownTopic]) -> None:
        for topic in topics:
            for number in range(topic.partitions):
                key = PartitionId(topic.id, number)
                self.places[key] = Place(topic.name, key, since=self._client.oracle.now())

    async def run(self) -> None:
        while not self._client.stopping:
            await self.poll()
            if self._rest_s:
                await self._client.pause(0.0, self._rest_s)

    def hurry(self) -> None:
        """From now on it does nothing else: how soon it has everything is up to the cluster, not to its own pauses."""
        self._rest_s = 0.0

    def has_all(self, cast: Cast) -> bool:
        """Up to the ends of the leaders' logs."""
        for key, place in self.places.items():
            partition = cast.leader(key)
            if partition is None or place.position < partition.log.end_offset:
                return False
        return True

    def _is_behind(self) -> bool:
        """Then nobody waits for what is still to come: a long poll at one leader would hold up what another has."""
        return any(place.position < place.high_watermark[1] for place in self.places.values())

    async def poll(self) -> None:
        """One request to each leader."""
        client = self._client
        by_leader = client.by_leader(list(self.places))
        fetches = [self._fetch(leader, keys) for leader, keys in by_leader.items() if leader != NOBODY]
        good = await asyncio.gather(*fetches)
        if NOBODY in by_leader or not all(good):
            await client.pause(0.02, 0.2)
            await client.refresh()

    async def _fetch(self, leader: int, keys: Sequence[PartitionId]) -> bool:
        oracle, since = self._client.oracle, self._client.oracle.now()
        believed = {key: self._client.leaders[key] for key in keys}
        try:
            answer = await self._client.ask_by_hand(leader, FETCH, fetching.VERSION, self._request(believed))
        except NoAnswer:
            return False
        good = read_head(answer).code == ErrorCode.none.value
        for row in read_rows(answer):
            place = self.places[PartitionId(*row.key)]
            if row.code == ErrorCode.none.value:
                good = self._take(place, row, believed[place.id], since) and good
            elif row.code == ErrorCode.offset_out_of_range.value:
                await self._find_place_again(place, leader)
            else:
                oracle.counts[f"fetch: {ErrorCode(row.code).name}"] += 1
                good = False
        return good

    def _request(self, believed: dict[PartitionId, Leader]) -> bytes:
        wishes = (fetching.Wish(key, leader.epoch, self.places[key].position) for key, leader in believed.items())
        max_wait_s = 0.0 if self._is_behind() else self._max_wait_s
        return fetching.request(wishes, max_wait_s=max_wait_s, max_bytes=self._max_bytes)

    def _take(self, place: Place, row: AnswerRow, leader: Leader, since: float) -> bool:
        """False if it is rotten: it may be whole at the next leader, or when somebody has mended it."""
        oracle, name = self._client.oracle, f"{self._client.name}, {self._client.oracle.name(place.id)}"
        before, mark = place.high_watermark
        if before == leader and row.high_watermark < mark and not oracle.is_excused(place.id, place.since):
            oracle.complain(f"{name}: the high watermark went from {mark} to {row.high_watermark} in {leader}")
        place.high_watermark = (leader, row.high_watermark)
        place.since = since
        if row.records:
            try:
                self._read(place, row, name, since)
            except CorruptBatch as error:
                if not oracle.is_rotten(place.id, since):
                    oracle.complain(f"{name}: {error}")
                oracle.counts["rot found by a consumer"] += 1
                return False
        return True

    def _read(self, place: Place, row: AnswerRow, name: str, since: float) -> None:
        oracle = self._client.oracle
        for header, batch in iterate_batches(bytes(row.records)):
            if header.crc != computed_crc(batch):
                raise CorruptBatch(f"the checksum of the batch at {header.base_offset} is wrong")
            for record in read_records(batch):
                if record.offset < place.position:
                    continue
                is_next = record.offset == place.position or oracle.is_compacted(place.id)
                if not is_next or record.offset >= row.high_watermark:
                    oracle.complain(f"{name}: got {record.offset} at {place.position}, below {row.high_watermark}")
                about = (record.value or b"",), self._client.name, since, (record.key,), record.timestamp
                oracle.commits(place.id, record.offset, *about)
                self.take(place.id, record)
                place.position = record.offset + 1
                oracle.counts["records read"] += 1
            if oracle.is_compacted(place.id):
                place.position = max(place.position, header.next_offset)  # its last records may be gone

    def take(self, partition: PartitionId, record: Record) -> None:
        """For those who want to know what was read."""

    async def _find_place_again(self, place: Place, leader: int) -> None:
        """Only after all in sync have lost the end of a log a position may lie beyond it; retention takes the start."""
        oracle = self._client.oracle
        oracle.counts["positions out of range"] += 1
        before = place.position, place.since
        row = {"partition_index": place.id.partition, "current_leader_epoch": -1, "timestamp": _EARLIEST}
        topics = [{"name": place.topic, "partitions": [row]}]
        request = {"replica_id": -1, "isolation_level": 0, "topics": topics}
        try:
            answer = await self._client.ask(leader, LIST_OFFSETS, _LIST_OFFSETS_VERSION, request)
        except NoAnswer:
            return
        found = answer.topics[0].partitions[0]
        if found.error_code is ErrorCode.none:
            place.position = int(found.offset)
            place.since = oracle.now()
            self._check_place(place, leader, *before)

    def _check_place(self, place: Place, leader: int, position: int, since: float) -> None:
        oracle = self._client.oracle
        if oracle.partitions[place.id].leader != leader:
            oracle.counts["positions out of range at one who leads no more"] += 1
            return  # what others have committed since is unknown there
        deletes = oracle.partitions[place.id].cleanup.deletes
        if not oracle.is_excused(place.id, since) and not (deletes and place.position > position):
            oracle.complain(
                f"{self._client.name}, {oracle.name(place.id)}: {position}, which was in the log at "
                f"{since:.3f} s, is out of range at node {leader}"
            )
