"""What the tests of cleaning start from: a compacted log on a simulated machine, and readers that build tables."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from tests.log.given import NOW, Machine, all_batches, append, config, everything, marker

from ottla.log.cleaning.cleaner import CleanerSettings, LogCleaner
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.model.config.topic import LogConfig
from ottla.model.names import TopicPartition
from ottla.record.batch import BatchHeader, Codec, TimestampType, parse_header
from ottla.record.builder import build_batch
from ottla.record.reader import read_records
from ottla.record.records import Record

TABLE = TopicPartition("table", 0)
TABLE_ID = UUID(int=77)
SMALL = CleanerSettings(
    enabled=True, threads=1, dedupe_bytes=64 * 1024, load_factor=0.9, io_bytes=1 << 17, io_bytes_per_second=1e300,
    backoff_ms=15_000,
)  # fmt: skip

Pairs = Sequence[tuple[bytes | None, bytes | None]]
Table = dict[bytes, bytes | None]


def compacted(**overrides: object) -> LogConfig:
    return config(**{"cleanup_policy": "compact", "segment_bytes": 400, "min_cleanable_dirty_ratio": 0, **overrides})


def keyed(
    pairs: Pairs, *, timestamp: int = NOW, codec: Codec = Codec.NONE, producer_id: int = -1, sequence: int = 0,
    transactional: bool = False, append_time: bool = False, producer_epoch: int = 0,
) -> bytes:  # fmt: skip
    return build_batch(
        [Record(key, value, timestamp + n) for n, (key, value) in enumerate(pairs)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch if producer_id >= 0 else -1,
        base_sequence=sequence if producer_id >= 0 else -1,
        transactional=transactional,
        timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
    )


class Tables:
    """A machine with a compacted log and a cleaner for it."""

    def __init__(
        self,
        machine: Machine,
        settings: CleanerSettings = SMALL,
        high_watermark: int | None = None,
        **overrides: Any,
    ) -> None:
        """`high_watermark` says how far it is committed, if not to the end."""
        self.machine = machine
        self.high_watermark = high_watermark
        self.config = compacted(**overrides)
        self.settings = settings
        self.manager = self.start()
        self.log = machine.call(self.manager.get_or_create, TABLE, TABLE_ID, self.config)

    def start(self) -> LogManager:
        offset = self.high_watermark
        committed = None if offset is None else lambda _: offset
        manager = self.machine.manager({TABLE: (TABLE_ID, self.config)}, committed)
        manager.cleaner = LogCleaner(self.machine.env, manager._timers, manager, lambda: self.settings)
        return manager

    @staticmethod
    def settings_with(**changes: Any) -> CleanerSettings:
        return replace(SMALL, **changes)

    @property
    def cleaner(self) -> LogCleaner:
        assert self.manager.cleaner is not None
        return self.manager.cleaner

    def put(self, pairs: Pairs, **how: object) -> int:
        return self.machine.call(append, self.log, keyed(pairs, **how))  # type: ignore[arg-type]

    def end(self, producer_id: int, *, commit: bool, producer_epoch: int = 0) -> int:
        ending = marker(producer_id, commit=commit, producer_epoch=producer_epoch)
        offset = self.machine.call(append, self.log, ending)
        self.log.producers.on_high_watermark(self.log.end_offset)
        return offset

    def roll(self) -> None:
        self.machine.call(self.log.roll, NOW)
        self.machine.pass_time(0.5)

    def clean(self) -> None:
        """All that may be cleaned is; what is active stays."""

        async def story() -> None:
            self.cleaner.wake()
            while self.cleaner._looking is not None:
                await asyncio.sleep(0.01)

        self.machine.wait_for(story)

    def compact(self) -> None:
        self.roll()
        self.clean()

    def reopen(self) -> None:
        self.machine.stop(self.manager)
        self.manager = self.start()
        self.log = self.manager.all_logs()[0]

    @property
    def cleaned_offset(self) -> int | None:
        return self.manager.dirs[0].cleaned_offsets.get(TABLE)


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in records(log)]


def records(log: PartitionLog) -> list[Record]:
    """All that is there, markers too."""
    return [record for batch in everything(log) for record in read_records(batch)]


def headers(log: PartitionLog) -> list[BatchHeader]:
    return [batch.header for batch in all_batches(log)]


def values(log: PartitionLog) -> list[tuple[bytes | None, bytes | None]]:
    """Of all data records, in order."""
    return [
        (record.key, record.value)
        for batch in everything(log)
        if not parse_header(batch).is_control
        for record in read_records(batch)
    ]


class Reader(NamedTuple):
    """One who has read up to an offset and keeps what he knows, by the rules of read_committed."""

    position: int
    table: Table


NEWCOMER = Reader(0, {})


def read_on(log: PartitionLog, reader: Reader) -> Reader:
    """To the last stable offset."""
    unstable = log.producers.first_unstable_offset()
    end = log.end_offset if unstable is None else unstable
    aborted = log.aborted_between(0, log.end_offset)
    table = dict(reader.table)
    for batch in everything(log):
        header = parse_header(batch)
        if header.is_control or any(
            txn.producer_id == header.producer_id and txn.first_offset <= header.base_offset <= txn.last_offset
            for txn in aborted
        ):
            continue
        for record in read_records(batch):
            if reader.position <= record.offset < end and record.key is not None:
                table[record.key] = record.value
    return Reader(end, {key: value for key, value in table.items() if value is not None})
