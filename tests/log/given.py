"""What the tests of the log start from: a simulated machine, logs, batches, and oracles that read by brute force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

from ottla.env.ports import Env
from ottla.env.timers import TimerWheel
from ottla.log.index import NotInMemory
from ottla.log.log_dir import LogDir
from ottla.log.manager import LogManager, TendingIntervals
from ottla.log.partition_log import PartitionLog
from ottla.log.producers import Producers
from ottla.log.reading import LogRead
from ottla.log.recovery import LoadRequest, load_log
from ottla.log.scan import ScannedBatch, end_marker, good_batches
from ottla.log.segment import Segment
from ottla.model.config.topic import LogConfig, log_config
from ottla.model.names import TopicPartition
from ottla.record.batch import Codec, parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.sim.disk import SimDisk
from ottla.sim.host import Host
from ottla.sim.world import START_MS, World

T = TypeVar("T")

LOGS = "/logs"
PARTITION = TopicPartition("orders", 0)
FOLDER = f"{LOGS}/{PARTITION}"
TOPIC_ID = UUID(int=7)
NOW = START_MS


def config(**overrides: object) -> LogConfig:
    """A topic's config; `segment_bytes=1000` is segment.bytes=1000, which may be as small as a test likes."""
    names = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    if "segment.bytes" in names:
        names["internal.segment.bytes"] = names.pop("segment.bytes")
    return log_config(None, names)


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW,
    step: int = 0,
    size: int = 10,
    value: bytes | None = None,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """A batch as a client sends it; its records have timestamps that go up by `step`."""
    content = b"v" * size if value is None else value
    records = [Record(b"k%d" % n, content, timestamp + n * step) for n in range(count)]
    idempotent = producer_id >= 0
    return build_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch if idempotent else -1,
        base_sequence=sequence if idempotent and not control else -1,
        transactional=transactional,
        control=control,
    )


def marker(
    producer_id: int, *, commit: bool, producer_epoch: int = 0, timestamp: int = NOW, coordinator: int = 0
) -> bytes:
    """The control batch that ends a transaction."""
    key = (0).to_bytes(2, "big") + int(commit).to_bytes(2, "big")
    value = (0).to_bytes(2, "big") + coordinator.to_bytes(4, "big")
    return build_batch(
        [Record(key, value, timestamp)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def append(log: PartitionLog, data: bytes, *, epoch: int = 0, now_ms: int = NOW) -> int:
    """As the leader does; a marker ends its transaction."""
    header = parse_header(data)
    base_offset = log.append(data, header, epoch, header.max_timestamp, now_ms)
    if header.is_control:
        ended = end_marker(ScannedBatch(0, header, memoryview(data)))
        assert ended is not None
        log.note_transaction_end(header, ended, base_offset)
    return base_offset


class Machine:
    """One simulated host with a log dir; a crash and what comes after it are a method call away."""

    def __init__(self, seed: int | str = 0, *, cold_reads: float = 0.0, disk: SimDisk | None = None) -> None:
        """With a `disk` it is another machine into which the disk of a dead one was put."""
        self.world = World(seed, cold_reads=cold_reads)
        self.host: Host = self.world.host("node")
        if disk is not None:
            disk._on_death = self.host._planned_death
            self.host.disk = disk
        else:
            self.disk.make_dirs(LOGS)
            self.disk.sync_dir("/")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.world.close()

    @property
    def env(self) -> Env:
        return self.host.env

    @property
    def disk(self) -> SimDisk:
        return self.host.disk

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return self.host.call(function, *args, **kwargs)

    def pass_time(self, seconds: float = 1.0) -> None:
        """All that is under way in the background happens."""
        self.world.run(asyncio.sleep(seconds))

    def wait_for(self, work: Callable[[], Any]) -> Any:
        async def story() -> Any:
            return await work()

        return self.world.run(self._on_host(story))

    async def _on_host(self, story: Callable[[], Any]) -> Any:
        return await self.host.start(lambda env: story())

    # -- one log

    def open(
        self, *, clean: bool = True, recovery_point: int = 0, start_offset: int = 0, high_watermark: int | None = None,
        settings: LogConfig | None = None, **overrides: object,
    ) -> PartitionLog:  # fmt: skip
        if not self.disk.exists(FOLDER):
            self.disk.make_dirs(FOLDER)
        request = LoadRequest(
            FOLDER,
            PARTITION,
            TOPIC_ID,
            settings or config(**overrides),
            clean,
            recovery_point,
            start_offset,
            high_watermark,
        )
        return self.call(load_log, self.env, request)

    def flush(self, log: PartitionLog) -> None:
        self.call(log.flush)
        self.pass_time()

    def reopen(self, log: PartitionLog) -> PartitionLog:
        """A clean stop and the next start."""
        self.pass_time()
        log.stop()
        return self.open(settings=log.config, start_offset=log.start_offset)

    def after_crash(self, log: PartitionLog) -> PartitionLog:
        """kill -9, the next start; the checkpoint says what was flushed."""
        self.host.crash()
        return self.open(
            clean=False, recovery_point=log.flushed_offset, start_offset=log.start_offset, settings=log.config
        )

    def after_power_loss(self, log: PartitionLog) -> PartitionLog:
        self.host.power_loss()
        return self.open(
            clean=False, recovery_point=log.flushed_offset, start_offset=log.start_offset, settings=log.config
        )

    # -- files

    def read(self, path: str) -> bytes:
        content = self.disk.snapshot()[path]
        assert content is not None
        return content

    def overwrite(self, path: str, content: bytes) -> None:
        file = self.disk.open(path, create=True)
        file.truncate(0)
        file.write((content,), 0)
        file.sync()

    def names(self, folder: str = FOLDER) -> list[str]:
        return self.disk.list_dir(folder)

    # -- a manager

    def manager(
        self,
        known: dict[TopicPartition, tuple[UUID, LogConfig]],
        high_watermark: Callable[[TopicPartition], int | None] | None = None,
        **intervals: int,
    ) -> LogManager:
        """Loads the log dir; unless told otherwise everything is committed."""
        times = {
            "retention_check_ms": 300_000,
            "checkpoint_ms": 60_000,
            "start_offset_checkpoint_ms": 60_000,
            "high_watermark_checkpoint_ms": 5_000,
            "producer_expiration_check_ms": 600_000,
            "producer_expiration_ms": 86_400_000,
            **intervals,
        }

        def topic(partition: TopicPartition, topic_id: UUID | None, directory: UUID) -> tuple[UUID, LogConfig] | None:
            found = known.get(partition)
            return found if found is not None and topic_id in (None, found[0]) else None

        def committed(partition: TopicPartition) -> int | None:
            log = made.get(partition)
            return None if log is None else log.end_offset

        def make() -> LogManager:
            env = self.env
            manager = LogManager(
                env,
                TimerWheel(self.world.loop),
                [LogDir(env, LOGS)],
                TendingIntervals(**times),
                high_watermark or committed,
            )
            manager.load(topic)
            return manager

        made = self.call(make)
        return made

    def stop(self, manager: LogManager, broker_epoch: int = 1) -> None:
        self.wait_for(lambda: manager.stop(broker_epoch))


# -- oracles


class Stored(NamedTuple):
    offset: int
    value: bytes | None
    timestamp: int


def batches_of(segment: Segment) -> list[ScannedBatch]:
    """By a walk through the file, without any index."""
    return list(good_batches(segment.file_for(), 0, segment.size, segment.base_offset))


def all_batches(log: PartitionLog) -> Iterator[ScannedBatch]:
    for segment in log.segments:
        yield from batches_of(segment)


def read_at(log: PartitionLog, offset: int, max_bytes: int, upper: int, *, at_least_one: bool = True) -> LogRead | None:
    """As a fetch does it, trying again where something has to come from the disk first."""
    while True:
        try:
            return log.read(offset, max_bytes, upper, at_least_one=at_least_one)
        except NotInMemory:
            continue


def read_bytes(found: LogRead) -> bytes:
    data = found.file.pread(found.size, found.position)
    assert found.data in (None, data)
    return data


def whole_batches(data: bytes) -> list[bytes]:
    batches = []
    position = 0
    while position + 61 <= len(data):
        end = position + parse_header(data, position).size
        if end > len(data):
            break
        batches.append(data[position:end])
        position = end
    return batches


def everything(log: PartitionLog, max_bytes: int = 1 << 20) -> list[bytes]:
    """All batches from the log's start on, fetched one piece after the other."""
    found: list[bytes] = []
    offset = log.start_offset
    while (piece := read_at(log, offset, max_bytes, log.end_offset)) is not None:
        batches = whole_batches(read_bytes(piece))
        found += batches
        offset = parse_header(batches[-1]).next_offset
    assert offset == log.end_offset
    return found


def check_finding(log: PartitionLog, every: int = 1) -> None:
    """Every lookup, by offset and by time, gives what a walk through all batches gives."""
    for segment in log.segments:
        batches = batches_of(segment)
        end = batches[-1].header.next_offset if batches else segment.base_offset
        for offset in range(segment.base_offset, end, every):
            expected = next(b for b in batches if b.header.last_offset >= offset)
            place = _patiently(lambda offset=offset, segment=segment: log._find(segment, offset))  # type: ignore[misc]
            assert place is not None
            assert (place.position, place.last_offset) == (expected.position, expected.header.last_offset)
        assert _patiently(lambda end=end, segment=segment: log._find(segment, end)) is None  # type: ignore[misc]
        times = {b.header.max_timestamp for b in batches}
        for time in sorted(times | {t + 1 for t in times} | {t - 1 for t in times if t > 0}):
            first = next((b for b in batches if b.header.max_timestamp >= time), None)
            place = _patiently(
                lambda time=time, segment=segment: log.with_sound_indexes(  # type: ignore[misc]
                    segment, lambda: segment.find_time(time, segment.base_offset)
                )
            )
            assert (place is None) == (first is None), f"time {time}"
            if place is not None and first is not None:
                assert place.position == first.position, f"time {time}"


def _patiently(look: Callable[[], T]) -> T:
    while True:
        try:
            return look()
        except NotInMemory:
            continue


def check_indexes(log: PartitionLog) -> None:
    """Each entry says what is so; both indexes rise."""
    for segment in log.segments:
        batches = {b.position: b.header for b in batches_of(segment)}
        by_last_offset = {header.last_offset: header for header in batches.values()}
        before = -1
        for n in range(segment.offset_index.entries.count):
            offset, position = _patiently(lambda n=n, segment=segment: segment.offset_index.entry(n))  # type: ignore[misc]
            assert batches[position].last_offset == offset > before
            before = offset
        time_before, offset_before = -1, segment.base_offset
        for n in range(segment.time_index.entries.count):
            entry = _patiently(lambda n=n, segment=segment: segment.time_index.entry(n))  # type: ignore[misc]
            assert entry.timestamp > time_before
            assert entry.offset >= offset_before
            assert by_last_offset[entry.offset].max_timestamp == entry.timestamp
            time_before, offset_before = entry
        largest = max((header.max_timestamp for header in batches.values()), default=-1)
        assert segment.max_timestamp == largest


def kafkas_indexes(
    segment: Segment, interval: int, *, finished: bool
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The entries that Kafka's rules give for the batches of a segment that was written in one go."""
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    since = 0
    largest, at = -1, -1
    for found in batches_of(segment):
        header = found.header
        if header.max_timestamp > largest:
            largest, at = header.max_timestamp, header.last_offset
        if since > interval:
            offsets.append((header.last_offset, found.position))
            if largest > (times[-1][0] if times else -1):
                times.append((largest, at))
            since = 0
        since += header.size
    if finished and largest > (times[-1][0] if times else -1):
        times.append((largest, at))
    return offsets, times


def entries_of(segment: Segment) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    offsets = [segment.offset_index.entry(n) for n in range(segment.offset_index.entries.count)]
    times = [tuple(segment.time_index.entry(n)) for n in range(segment.time_index.entries.count)]
    return offsets, [(time, offset) for time, offset in times]


ProducerState = dict[int, tuple[int, int, int, int, int, int]]


def producer_state(producers: Producers) -> ProducerState:
    """What of each producer survives a restart."""
    return {
        entry.producer_id: (
            entry.epoch,
            entry.batches[-1].last_sequence if entry.batches else -1,
            entry.batches[-1].last_offset if entry.batches else -1,
            entry.coordinator_epoch,
            entry.last_timestamp,
            entry.txn_first_offset,
        )
        for entry in producers.entries.values()
    }


def replayed(log: PartitionLog) -> Producers:
    """The state after all batches that are still in the log."""
    producers = Producers("replayed")
    for found in all_batches(log):
        header = found.header
        if header.producer_id < 0:
            continue
        if not header.is_control:
            producers.note(header, header.base_offset, header.max_timestamp)
        elif (ended := end_marker(found)) is not None:
            producers.note_end(header, ended, header.base_offset)
    return producers


def epochs_in(log: PartitionLog) -> list[tuple[int, int]]:
    """Each leader epoch that has a batch, and its first offset."""
    starts: list[tuple[int, int]] = []
    for found in all_batches(log):
        if not starts or found.header.leader_epoch > starts[-1][0]:
            starts.append((found.header.leader_epoch, found.header.base_offset))
    return starts
