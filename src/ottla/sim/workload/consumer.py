"""A consumer by assignment, with long polls: reads everything, and looks closely at what it gets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from ottla.model.errors import ErrorCode
from ottla.record.batch import computed_crc
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import CorruptBatch
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import FETCH, LIST_OFFSETS, Client, KnownTopic, NoAnswer

_BY_ID: Final = 13
_SESSIONS: Final = 7
_LIST_OFFSETS_VERSION: Final = 7
_EARLIEST, _LATEST = -2, -1
_NO_LONGER_THERE: Final = (ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition)
_SESSION_LOST: Final = (ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch)


@dataclass(slots=True)
class Place:
    """Where this consumer is in one partition."""

    topic: str
    id: PartitionId
    position: int = 0
    life: int = 0
    """In which life of the node the position was last known to be in the log."""
    high_watermark: int = -1
    log_start: int = -1
    caught_up: bool = False


class Consumer:
    """Versions from 5 on, which tell where a log starts."""

    def __init__(
        self,
        client: Client,
        version: int,
        *,
        sessions: bool,
        committed: bool,
        max_wait_s: float,
        max_bytes: int,
        min_bytes: int = 1,
    ) -> None:
        self._client = client
        self._version = version
        self._sessions = sessions and version >= _SESSIONS
        self._committed = committed
        self._max_wait = timedelta(seconds=max_wait_s)
        self._max_bytes = max_bytes
        self._min_bytes = min_bytes
        self.places: dict[PartitionId, Place] = {}
        self._session_id = 0
        self._session_epoch = 0
        self._told: dict[PartitionId, int] = {}
        """The positions that the session knows."""
        self._connection: object = None

    def assign(self, topics: Iterable[KnownTopic]) -> None:
        for topic in topics:
            for number in range(topic.partitions):
                key = PartitionId(topic.id, number)
                self.places.setdefault(key, Place(topic.name, key))

    async def run(self) -> None:
        while not self._client.stopping:
            if not self.places or not await self.poll():
                await self._client.pause(0.05, 0.3)

    async def poll(self) -> bool:
        """One request; false if it brought an error."""
        connection = await self._client.connection()
        if connection is not self._connection:
            self._connection = connection
            self._forget_session()
            for place in self.places.values():  # another connection may lead to another life
                place.high_watermark = place.log_start = -1
        try:
            answer, life = await self._client.ask(FETCH, self._version, self._request(), on=connection)
        except NoAnswer:
            return False
        if self._version >= _SESSIONS:
            if answer.error_code in _SESSION_LOST:
                self._client.history.counts["fetch sessions lost"] += 1
                self._forget_session()
                return True
            if answer.error_code is not ErrorCode.none:
                self._client.history.complain(f"{self._client.name} got {answer.error_code.name} for a fetch")
                return False
            self._go_on_with(answer.session_id)
        good, lost = True, []
        for topic in answer.responses:
            for row in topic.partitions:
                asked = self._place(topic, row.partition_index)
                if asked is None:
                    continue
                if row.error_code is ErrorCode.offset_out_of_range:
                    lost.append(asked)
                else:
                    good = self._take(asked, row, life) and good
        for asked in lost:
            await self._find_place_again(asked)
        return good and not lost

    # -- asking

    def _request(self) -> dict[str, Any]:
        asked = [place for place in self.places.values() if self._told.get(place.id) != place.position]
        if not self._sessions:
            asked = list(self.places.values())
        topics: dict[object, dict[str, Any]] = {}
        for place in asked:
            row = {
                "partition": place.id.partition,
                "fetch_offset": place.position,
                "partition_max_bytes": self._max_bytes,
                "log_start_offset": -1,
            }
            topic = {"topic": place.topic, "topic_id": place.id.topic_id, "partitions": []}
            topics.setdefault(place.id.topic_id, topic)["partitions"].append(row)
        if self._sessions:
            self._told.update((place.id, place.position) for place in asked)
        return {
            "replica_id": -1,
            "max_wait": self._max_wait,
            "min_bytes": self._min_bytes,
            "max_bytes": self._max_bytes * 3,
            "isolation_level": int(self._committed),
            "session_id": self._session_id,
            "session_epoch": self._session_epoch if self._sessions else -1,
            "topics": list(topics.values()),
            "forgotten_topics_data": [],
        }

    def _forget_session(self) -> None:
        self._session_id = self._session_epoch = 0
        self._told.clear()

    def _go_on_with(self, session_id: int) -> None:
        if not self._sessions:
            return
        if session_id == 0:
            self._forget_session()
        else:
            self._session_id = session_id
            self._session_epoch += 1

    def _place(self, topic: Any, number: int) -> Place | None:
        if self._version >= _BY_ID:
            return self.places.get(PartitionId(topic.topic_id, number))
        found = [place for place in self.places.values() if place.topic == topic.topic and place.id.partition == number]
        return found[0] if found else None

    # -- looking at what came

    def _take(self, place: Place, row: Any, life: int) -> bool:
        if row.error_code in _NO_LONGER_THERE:
            self.places.pop(place.id, None)
            self._forget_session()
            return True
        if row.error_code is not ErrorCode.none:
            self._client.history.counts[f"fetch: {row.error_code.name}"] += 1
            return False
        self._check_marks(place, row)
        before = place.position
        if row.records:
            self._read(place, row, life)
        place.life = life
        place.caught_up = place.position >= row.high_watermark
        self._client.history.counts["records read"] += place.position - before
        return True

    def _check_marks(self, place: Place, row: Any) -> None:
        history, name = self._client.history, self._name(place)
        if row.high_watermark < place.high_watermark:
            history.complain(f"high watermark of {name} went from {place.high_watermark} to {row.high_watermark}")
        if row.last_stable_offset > row.high_watermark:
            history.complain(f"{name} is stable up to {row.last_stable_offset}, beyond {row.high_watermark}")
        place.high_watermark = row.high_watermark
        if row.log_start_offset < place.log_start:
            history.complain(f"start of {name} went from {place.log_start} back to {row.log_start_offset}")
        place.log_start = row.log_start_offset
        history.starts_at(place.id, row.log_start_offset)

    def _read(self, place: Place, row: Any, life: int) -> None:
        history, name = self._client.history, self._name(place)
        gaps = history.may_have_gaps(place.id)
        first = True
        try:
            for header, batch in iterate_batches(row.records):
                if header.crc != computed_crc(batch):
                    raise CorruptBatch(f"the checksum of the batch at {header.base_offset} is wrong")
                if header.last_offset < place.position or (not first and header.base_offset < place.position):
                    history.complain(f"{name}: got {header.base_offset} to {header.last_offset} at {place.position}")
                first = False
                for record in read_records(batch):
                    if record.offset < place.position:
                        continue
                    if (record.offset > place.position and not gaps) or record.offset >= row.high_watermark:
                        history.complain(f"{name}: got {record.offset} at {place.position}, below {row.high_watermark}")
                    history.reads(life, place.id, record.offset, record.value or b"", self._client.name)
                    place.position = record.offset + 1
        except CorruptBatch as error:
            history.complain(f"{name}: {error}")

    async def _find_place_again(self, place: Place) -> None:
        """Right after a power loss took the end, or when retention took the beginning; otherwise something was lost."""
        history = self._client.history
        history.counts["positions out of range"] += 1
        start, end = await self._offset(place, _EARLIEST), await self._offset(place, _LATEST)
        if start is None or end is None:
            return
        if place.position >= start and not history.lost_power_since(place.life):
            history.complain(
                f"{self._name(place)}: {place.position} is out of range ({start} to {end}), although it was in the log "
                f"in life {place.life} and no power was lost since"
            )
        history.starts_at(place.id, start)
        place.position = start

    async def _offset(self, place: Place, timestamp: int) -> int | None:
        row = {"partition_index": place.id.partition, "timestamp": timestamp}
        request = {
            "replica_id": -1,
            "isolation_level": 0,
            "topics": [{"name": place.topic, "partitions": [row]}],
        }
        try:
            answer, _ = await self._client.ask(LIST_OFFSETS, _LIST_OFFSETS_VERSION, request)
        except NoAnswer:
            return None
        found = answer.topics[0].partitions[0]
        return int(found.offset) if found.error_code is ErrorCode.none else None

    def _name(self, place: Place) -> str:
        return f"{self._client.name}, {self._client.history.name(place.id)}"
