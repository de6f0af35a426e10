"""`__remote_log_metadata` as this broker reads and writes it.

It follows the partitions of the topic that tell of partitions which it has itself: in its own log where it has a
replica, else by asking the leader. Whoever publishes an event goes on when that event has come back to him, so that
what he knows is never behind what he did.

An unclean election of a partition of the topic may take back what was read. Epochs tell so, as they do to followers,
and the partition is then read anew from its beginning: nobody goes on with what is told nowhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ottla.broker.peer_brokers import PeerBrokers
from ottla.env.ports import Buffer
from ottla.env.tasks import Tasks
from ottla.log.index import NotInMemory
from ottla.log.partition_log import PartitionLog
from ottla.log.producers import Origin
from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.model.names import NO_EPOCH, NO_OFFSET, REMOTE_METADATA_TOPIC
from ottla.record.batch import BatchHeader, computed_crc
from ottla.record.builder import build_batch
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import CorruptBatch, Record
from ottla.replica.partition import Appended, Isolation, Partition
from ottla.tier.metadata_records import Event, UnknownRecord, metadata_partition, read_event, write_event
from ottla.tier.remote_log import OutOfOrder, RemoteLog
from ottla.tier.remote_segment import DeleteState, PartitionDelete, RemotePartition, RemoteSegment, SegmentUpdate

if TYPE_CHECKING:
    from ottla.broker.node import Node

_log = logging.getLogger("ottla.tier")
_PRODUCE, _FETCH, _LIST_OFFSETS = 0, 1, 2
_LATEST, _EARLIEST = -1, -2
_READ_BYTES: Final = 1024 * 1024
_LOOK_AGAIN_S: Final = 1.0
_MAX_WAIT: Final = timedelta(milliseconds=500)
_PUBLISH_WITHIN_S: Final = 30.0
_BACKOFF_S: Final = 0.2

LogKey = tuple[UUID, int]


class _Followed:
    """One partition of the topic."""

    def __init__(self) -> None:
        self.position = 0
        self.epoch = NO_EPOCH  # of the leader who wrote what was read last
        self.is_known = False  # whether all that there was at some moment since the start has been read
        self.task: asyncio.Task[Any] | None = None
        self.moved = asyncio.Event()

    def advance(self, position: int, end: int | None) -> None:
        """`end` is None while it cannot be said what there is."""
        self.position = position
        self.is_known = self.is_known or (end is not None and position >= end)
        self.moved.set()
        self.moved = asyncio.Event()


class TierMetadata:
    def __init__(self, node: Node) -> None:
        self.logs: dict[LogKey, RemoteLog] = {}
        self.names: dict[LogKey, RemotePartition] = {}
        self.deleting: dict[LogKey, None] = {}
        """Partitions that are to be deleted with all they have there."""
        self._node = node
        self._followed: dict[int, _Followed] = {}
        self._leaders: dict[int, asyncio.Task[Any]] = {}
        self._tasks = Tasks(lambda error: _log.error("the metadata of the remote tier: %r", error, exc_info=error))
        self._readers = PeerBrokers(node.env, lambda: node.config, lambda: node.image, "tier-reader")
        self._writers = PeerBrokers(node.env, lambda: node.config, lambda: node.image, "tier-writer")

    async def stop(self) -> None:
        await self._tasks.stop()
        await self._readers.stop()
        await self._writers.stop()

    # -- where things are

    @property
    def partitions(self) -> int:
        """Of the topic; 0 while there is none."""
        topic = self._node.image.topic(REMOTE_METADATA_TOPIC)
        return 0 if topic is None else len(topic.partitions)

    def number_of(self, key: LogKey) -> int:
        return metadata_partition(*key, self.partitions)

    def leads(self, key: LogKey) -> bool:
        """Whether this broker leads the partition of the topic that tells of another partition."""
        partition = self._here(self.number_of(key))
        return partition is not None and partition.is_leader

    def _here(self, number: int) -> Partition | None:
        return self._node.replicas.by_name.get((REMOTE_METADATA_TOPIC, number))

    def _leader(self, number: int) -> int:
        topic = self._node.image.topic(REMOTE_METADATA_TOPIC)
        return -1 if topic is None or number not in topic.partitions else topic.partitions[number].leader

    # -- following

    def follow(self, keys: Iterable[LogKey]) -> bool:
        """What is told of these is read from here on; False while there is no topic, which is then created."""
        wanted = set(keys)
        if not wanted:
            return True
        if not self.partitions:
            self._node.auto_create.start([REMOTE_METADATA_TOPIC])
            return False
        for number in {self.number_of(key) for key in wanted}:
            self.follow_number(number)
        return True

    def follow_number(self, number: int) -> None:
        followed = self._followed.get(number)
        if followed is None:
            followed = self._followed[number] = _Followed()
        if followed.task is None or followed.task.done():
            if self._here(number) is not None:
                followed.task = self._tasks.start(self._follow_here(number, followed), f"tier metadata {number}")
                return
            leader = self._leader(number)
            if leader >= 0 and (leader not in self._leaders or self._leaders[leader].done()):
                self._leaders[leader] = self._tasks.start(self._follow_leader(leader), f"tier metadata of {leader}")

    def knows(self, key: LogKey) -> bool:
        """Whether what was told of a partition before this node looked has all been read."""
        followed = self._followed.get(self.number_of(key)) if self.partitions else None
        return followed is not None and followed.is_known

    async def _follow_here(self, number: int, followed: _Followed) -> None:
        while (partition := self._here(number)) is not None:
            # A replica that is not in sync may lack what was committed long ago.
            is_in_sync = partition.is_leader or self._node.config.node_id in partition.leadership.isr
            if is_in_sync and _has_parted(partition.log, followed):
                self._forget(number, followed)
            try:
                read = await self._read_here(partition, followed.position)
            except (OSError, KafkaError) as error:
                _log.warning("%s cannot be read now: %s", partition.key, error)
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            end = partition.log.end_offset if is_in_sync else None
            if not self._take(number, followed, read, partition.high_watermark, end):
                await asyncio.sleep(_LOOK_AGAIN_S)
            elif not read:
                await self._until_moved(partition, followed.position)

    async def _read_here(self, partition: Partition, position: int) -> bytes:
        while True:
            try:
                fetched = partition.fetch(
                    position, _READ_BYTES, Isolation.READ_UNCOMMITTED, at_least_one=True, leader_only=False
                )
            except NotInMemory as missing:
                await self._node.env.executor.blocking(missing.file.pread, missing.size, missing.position)
                continue
            if fetched.code is ErrorCode.offset_out_of_range and position < partition.log.start_offset:
                position = partition.log.start_offset
                continue
            if fetched.code is not ErrorCode.none:
                raise KafkaError(fetched.code)
            data = fetched.data
            if data is None:
                return b""
            if data.data is not None:
                return data.data
            return await self._node.env.executor.blocking(data.file.pread, data.size, data.position)

    async def _until_moved(self, partition: Partition, position: int) -> None:
        moved: asyncio.Future[None] = self._node.env.loop.create_future()
        waiter = partition.committed.when(position + 1, lambda: None if moved.done() else moved.set_result(None))
        await asyncio.wait([moved], timeout=_LOOK_AGAIN_S)  # it may be gone from here by then
        waiter.cancel()
        moved.cancel()

    async def _follow_leader(self, leader: int) -> None:
        """All that this broker leads and that is not here, in one request."""
        lost: list[int] = []  # those of which the leader has not what we have read, or no more what follows
        while numbers := [each for each in self._followed if self._here(each) is None and self._leader(each) == leader]:
            try:
                for number, start in (await self._listed(leader, lost, _EARLIEST)).items():
                    self._begin_again(number, start)
                lost = []
                unknown = [each for each in numbers if not self._followed[each].is_known]
                ends = await self._listed(leader, unknown, _LATEST)
                answer = await self._readers.call(leader, _FETCH, self._request(numbers))
            except OttlaError as error:
                _log.info("broker %d cannot be asked for the metadata of the remote tier: %s", leader, error)
                await asyncio.sleep(_LOOK_AGAIN_S)
                continue
            failed = answer.error_code is not ErrorCode.none
            for topic in answer.responses:
                for row in topic.partitions:
                    followed = self._followed[row.partition_index]
                    if row.error_code is ErrorCode.offset_out_of_range:
                        lost.append(row.partition_index)
                    elif row.error_code is not ErrorCode.none:
                        failed = True
                    elif row.diverging_epoch.end_offset >= 0:
                        self._forget(row.partition_index, followed)
                    else:
                        data, end = bytes(row.records or b""), ends.get(row.partition_index)
                        if not self._take(row.partition_index, followed, data, row.high_watermark, end):
                            failed = True
            if failed:
                await asyncio.sleep(_BACKOFF_S)

    async def _listed(self, leader: int, numbers: list[int], timestamp: int) -> dict[int, int]:
        """Where they begin, or up to where they are committed. Just after its election a leader does not know that, and
        says so (KIP-207), while the high watermark in its answers to fetches is as late as it may be."""
        if not numbers:
            return {}
        rows = [{"partition_index": number, "current_leader_epoch": -1, "timestamp": timestamp} for number in numbers]
        request = {
            "replica_id": -1, "isolation_level": 0, "timeout": _MAX_WAIT,
            "topics": [{"name": REMOTE_METADATA_TOPIC, "partitions": rows}],
        }  # fmt: skip
        answer = await self._readers.call(leader, _LIST_OFFSETS, request)
        found = (row for topic in answer.topics for row in topic.partitions)
        return {row.partition_index: row.offset for row in found if row.error_code is ErrorCode.none}

    def _request(self, numbers: list[int]) -> dict[str, Any]:
        topic = self._node.image.topic(REMOTE_METADATA_TOPIC)
        rows = [
            {
                "partition": number, "current_leader_epoch": -1, "fetch_offset": self._followed[number].position,
                "last_fetched_epoch": self._followed[number].epoch, "log_start_offset": -1,
                "partition_max_bytes": _READ_BYTES,
            }
            for number in numbers
        ]  # fmt: skip
        return {
            "replica_id": -1, "max_wait": _MAX_WAIT, "min_bytes": 1, "max_bytes": 8 * _READ_BYTES,
            "isolation_level": 0, "session_id": 0, "session_epoch": -1,
            "topics": [
                {"topic": REMOTE_METADATA_TOPIC, "topic_id": None if topic is None else topic.id, "partitions": rows}
            ],
            "forgotten_topics_data": [],
        }  # fmt: skip

    def _take(self, number: int, followed: _Followed, data: bytes, high_watermark: int, end: int | None) -> bool:
        """`end` is what must have been read before one can say that all is known: the high watermark may be late. None
        if that cannot be said. False if something is damaged, and nothing behind it can be read."""
        position, is_whole = followed.position, True
        try:
            for header, batch in iterate_batches(data):
                if header.next_offset <= position or header.next_offset > high_watermark:
                    continue
                for record in () if header.is_control else _records(number, header, batch):
                    if record.offset >= position and record.value is not None:
                        self._apply(record.value, f"{REMOTE_METADATA_TOPIC}-{number} at offset {record.offset}")
                position, followed.epoch = header.next_offset, header.leader_epoch
        except CorruptBatch as error:
            _log.error("%s-%d cannot be read from offset %d on: %s", REMOTE_METADATA_TOPIC, number, position, error)
            is_whole = False
        followed.advance(position, end)
        return is_whole

    def _begin_again(self, number: int, start: int) -> None:
        followed = self._followed[number]
        if followed.position >= start:
            self._forget(number, followed)
        else:  # what lies before has expired
            followed.position, followed.epoch = start, NO_EPOCH

    def _forget(self, number: int, followed: _Followed) -> None:
        """All that was read of a partition of the topic, and what followed from it: nothing leaves a disk meanwhile."""
        _log.warning(
            "%s-%d is no longer as it was read up to offset %d: an unclean election has taken some of it back. It is "
            "read anew. What was in the remote tier by that alone is not found any more, and copied again where a disk "
            "still has it; ottla tier verify names the objects.",
            *(REMOTE_METADATA_TOPIC, number, followed.position),
        )
        followed.position, followed.epoch, followed.is_known = 0, NO_EPOCH, False
        for key in [each for each in {**self.logs, **self.names, **self.deleting} if self.number_of(each) == number]:
            self.logs.pop(key, None)
            self.names.pop(key, None)
            self.deleting.pop(key, None)
            partition = self._node.replicas.by_id.get(key)
            if partition is not None:
                partition.log.tiered_to = NO_OFFSET

    def _apply(self, value: bytes, where: str) -> None:
        try:
            event = read_event(value)
            key: LogKey = (event.of.topic_id, event.of.partition)
            match event:
                case RemoteSegment():
                    self.names[key] = event.of
                    self.logs.setdefault(key, RemoteLog()).begin(event)
                case SegmentUpdate():
                    self.logs.setdefault(key, RemoteLog()).update(event)
                case PartitionDelete(state=DeleteState.FINISHED):
                    self.deleting.pop(key, None)
                    self.logs.pop(key, None)
                    self.names.pop(key, None)
                case PartitionDelete():
                    self.names[key] = event.of
                    self.deleting[key] = None
        except UnknownRecord as error:
            _log.warning("%s: %s; it is passed over", where, error)
        except OutOfOrder as error:
            _log.info("%s comes too late and does not count: %s", where, error)

    # -- publishing

    async def publish(self, *events: Event) -> None:
        """Of one partition. Done when they are committed and have been read again here, else OttlaError."""
        if not self.partitions:
            raise OttlaError(f"{REMOTE_METADATA_TOPIC} is not there yet")
        number = self.number_of((events[0].of.topic_id, events[0].of.partition))
        now_ms = self._node.env.clock.now_ms()
        batch = build_batch([Record(None, write_event(event), now_ms) for event in events])
        self.follow_number(number)
        followed = self._followed[number]
        try:
            async with asyncio.timeout(_PUBLISH_WITHIN_S):
                last = await self._append(number, batch) + len(events) - 1
                while followed.position <= last:
                    moved = followed.moved
                    self.follow_number(number)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_AGAIN_S):
                            await moved.wait()
        except TimeoutError:
            raise OttlaError(
                f"{REMOTE_METADATA_TOPIC}-{number} did not take an event within {_PUBLISH_WITHIN_S:g} s"
            ) from None

    async def _append(self, number: int, batch: bytes) -> int:
        partition = self._here(number)
        if partition is not None and partition.is_leader:
            appended = partition.append(batch, -1, Origin.COORDINATOR)
            assert isinstance(appended, Appended)  # nothing of ours is checked in another process
            if appended.code is not ErrorCode.none:
                raise OttlaError(
                    f"{partition.key} refused an event: {appended.code.name.upper()} {appended.message or ''}"
                )
            await self._committed(partition, appended.next_offset)
            return appended.base_offset
        leader, topic = self._leader(number), self._node.image.topic(REMOTE_METADATA_TOPIC)
        if leader < 0 or topic is None:
            raise OttlaError(f"{REMOTE_METADATA_TOPIC}-{number} has no leader")
        rows = [{"index": number, "records": batch}]
        answer = await self._writers.call(
            leader,
            _PRODUCE,
            {
                "transactional_id": None, "acks": -1, "timeout": timedelta(seconds=_PUBLISH_WITHIN_S / 2),
                "topic_data": [{"name": REMOTE_METADATA_TOPIC, "topic_id": topic.id, "partition_data": rows}],
            },
        )  # fmt: skip
        row = answer.responses[0].partition_responses[0]
        if row.error_code is not ErrorCode.none:
            raise OttlaError(f"{REMOTE_METADATA_TOPIC}-{number} refused an event: {row.error_code.name.upper()}")
        return int(row.base_offset)

    async def _committed(self, partition: Partition, offset: int) -> None:
        reached: asyncio.Future[None] = self._node.env.loop.create_future()

        def done() -> None:
            if not reached.done():
                reached.set_result(None)

        waiter = partition.committed.when(offset, done)
        try:
            await reached
        finally:
            waiter.cancel()
        if partition.committed.value < offset:
            raise OttlaError(f"{partition.key} is led elsewhere now, or its disk has failed")


def _records(number: int, header: BatchHeader, batch: Buffer) -> list[Record]:
    """Any client may write to the topic: what is as it was written, and yet cannot be read, is no event of a broker."""
    if computed_crc(batch) != header.crc:
        raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its checksum")
    try:
        return read_records(batch)
    except CorruptBatch as error:
        where = f"{REMOTE_METADATA_TOPIC}-{number} at offset {header.base_offset}"
        _log.warning("%s: %s; it is passed over", where, error)
        return []


def _has_parted(log: PartitionLog, followed: _Followed) -> bool:
    """Whether what was read is no longer part of a log that has all that is committed."""
    if followed.epoch == NO_EPOCH:
        return False
    end = log.epochs.end_of(followed.epoch, log.end_offset)
    return end.epoch != followed.epoch or end.end_offset < followed.position
