"""What a partition remembers of each producer: its epoch, its last five batches, its open transaction.

This is what makes a retried batch land once: a batch that is already there is answered with the offsets it has, one
that leaves a gap is refused. It is written to `.snapshot` files when a segment rolls and when a node stops, and is
replayed from the log beyond the last of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ottla.env.files import read_file, replace_file
from ottla.env.ports import Disk
from ottla.log.txn_index import AbortedTxn
from ottla.model.errors import ErrorCode
from ottla.record.batch import BatchHeader

REMEMBERED_BATCHES: Final = 5
_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = Struct(">hIi")  # version, CRC of all that follows it, number of entries
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_END: Final = 6


class Origin(Enum):
    """Who appends; sets how much is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"
    RAFT = "raft"


class SeenBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Refused(NamedTuple):
    code: ErrorCode
    message: str


class EndMarker(NamedTuple):
    """The one record of a control batch that ends a transaction."""

    committed: bool
    coordinator_epoch: int
    timestamp: int


class CorruptSnapshot(Exception):
    pass


class ProducerEntry:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "txn_first_offset")

    def __init__(self, producer_id: int, epoch: int = -1) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: deque[SeenBatch] = deque(maxlen=REMEMBERED_BATCHES)
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = -1

    def duplicate_of(self, header: BatchHeader) -> SeenBatch | None:
        if header.producer_epoch != self.epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for seen in self.batches:
            if seen.first_sequence == first and seen.last_sequence == last:
                return seen
        return None

    def note(self, header: BatchHeader, base_offset: int, max_timestamp: int) -> None:
        if header.producer_epoch != self.epoch:
            self.epoch = header.producer_epoch
            self.batches.clear()
        last_offset = base_offset + header.last_offset_delta
        self.batches.append(
            SeenBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, max_timestamp)
        )
        self.last_timestamp = max_timestamp


class Producers:
    """All producers of one partition, up to `end_offset`."""

    def __init__(self, name: str) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.end_offset = 0
        self._name = name
        # First offset -> producer id. Transactions begin in the order of their offsets, so the first key is the lowest.
        self._ongoing: dict[int, int] = {}
        # First offset -> last offset: ended, but the end is not yet below the high watermark.
        self._ended: dict[int, int] = {}

    # -- checking and noting batches

    def check(self, header: BatchHeader) -> SeenBatch | Refused | None:
        """For a batch of a client with a producer id: its earlier self, the reason to refuse it, or None."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None
        # the usual case first: the next sequence of the same epoch
        if entry.batches and header.producer_epoch == entry.epoch:
            last = entry.batches[-1].last_sequence
            if header.base_sequence == (last + 1) & 0x7FFFFFFF:
                return self._check_transaction(entry, header)
            if (seen := entry.duplicate_of(header)) is not None:
                return seen
            return self._out_of_order(header, f"{last} (current end sequence number)")
        if header.producer_epoch < entry.epoch:
            return Refused(
                ErrorCode.invalid_producer_epoch,
                f"Epoch of producer {header.producer_id} in {self._name} is {header.producer_epoch}, which is smaller "
                f"than the last seen epoch {entry.epoch}",
            )
        if header.producer_epoch > entry.epoch:
            if header.base_sequence != 0 and entry.epoch >= 0:
                return self._out_of_order(header, f"{entry.epoch} (current producer epoch)")
        elif header.base_sequence != 0 and entry.epoch >= 0:
            # An epoch is known but none of its batches: a marker bumped it. Its first batch starts at 0.
            return self._out_of_order(header, "-1 (current end sequence number)")
        return self._check_transaction(entry, header)

    def _check_transaction(self, entry: ProducerEntry, header: BatchHeader) -> Refused | None:
        if entry.txn_first_offset >= 0 and not header.is_transactional:
            return Refused(
                ErrorCode.invalid_txn_state,
                f"Expected transactional write from producer {header.producer_id} in {self._name}",
            )
        return None

    def _out_of_order(self, header: BatchHeader, known: str) -> Refused:
        return Refused(
            ErrorCode.out_of_order_sequence_number,
            f"Out of order sequence number for producer {header.producer_id} in {self._name}: "
            f"{header.base_sequence} (incoming seq. number), {known}",
        )

    def note(self, header: BatchHeader, base_offset: int, max_timestamp: int) -> None:
        """A data batch was appended (or is replayed)."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        entry.note(header, base_offset, max_timestamp)
        if header.is_transactional and entry.txn_first_offset < 0:
            entry.txn_first_offset = base_offset
            self._ongoing[base_offset] = producer_id

    def note_end(self, header: BatchHeader, marker: EndMarker, offset: int) -> AbortedTxn | None:
        """A transaction's end marker was appended (or is replayed); gives what belongs into the `.txnindex`."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        if header.producer_epoch != entry.epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = marker.timestamp
        first = entry.txn_first_offset
        if first < 0:
            return None  # an empty transaction leaves no trace
        entry.txn_first_offset = -1
        self._ongoing.pop(first, None)
        self._ended[first] = offset
        if marker.committed:
            return None
        stable = next(iter(self._ongoing), offset + 1)
        return AbortedTxn(header.producer_id, first, offset, stable)

    # -- what others ask

    def first_unstable_offset(self) -> int | None:
        """Where read_committed readers must stop, if anywhere below the high watermark."""
        ongoing = next(iter(self._ongoing), None)
        ended = min(self._ended, default=None) if self._ended else None
        if ongoing is None or ended is None:
            return ended if ongoing is None else ongoing
        return min(ongoing, ended)

    def on_high_watermark(self, high_watermark: int) -> None:
        if self._ended:
            for first in [first for first, last in self._ended.items() if last < high_watermark]:
                del self._ended[first]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        for producer_id in [
            entry.producer_id
            for entry in self.entries.values()
            if entry.txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]:
            del self.entries[producer_id]

    def take_back(self, end_offset: int) -> bool:
        """Forgets batches from an offset on; False, and nothing is changed, if what was before them is not known."""
        taken: list[tuple[ProducerEntry, list[SeenBatch]]] = []
        for entry in self.entries.values():
            if entry.coordinator_epoch >= 0 or entry.txn_first_offset >= 0:
                return False  # markers leave no trace of where they were
            if entry.batches and entry.batches[-1].last_offset >= end_offset:
                left = [seen for seen in entry.batches if seen.last_offset < end_offset]
                if not left:
                    return False
                taken.append((entry, left))
        for entry, left in taken:
            entry.batches = deque(left, maxlen=REMEMBERED_BATCHES)
            entry.last_timestamp = left[-1].timestamp
        self.end_offset = end_offset
        return True

    def clear(self, end_offset: int) -> None:
        self.entries.clear()
        self._ongoing.clear()
        self._ended.clear()
        self.end_offset = end_offset

    def load(self, entries: Iterable[ProducerEntry], end_offset: int) -> None:
        self.clear(end_offset)
        for entry in entries:
            self.entries[entry.producer_id] = entry
        self._ongoing = {
            entry.txn_first_offset: entry.producer_id
            for entry in sorted(self.entries.values(), key=lambda entry: entry.txn_first_offset)
            if entry.txn_first_offset >= 0
        }


def write_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Kafka's producer snapshot, version 1: only the last batch of each producer is kept."""
    rows = bytearray()
    count = 0
    for entry in entries:
        last = entry.batches[-1] if entry.batches else None
        rows += _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence if last else -1,
            last.last_offset if last else -1,
            last.last_offset - last.base_offset if last else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.txn_first_offset,
        )
        count += 1
    checked = count.to_bytes(4, "big") + rows
    return _SNAPSHOT_HEAD.pack(_SNAPSHOT_VERSION, crc32c(checked), count) + rows


def replace_if_other(disk: Disk, path: str, snapshot: bytes) -> bool:
    """Leaves the same content alone: it may be durable, and what takes its place is not yet. True if it was another."""
    if disk.exists(path) and read_file(disk, path) == snapshot:
        return False
    replace_file(disk, path, snapshot)
    return True


def read_snapshot(data: bytes) -> list[ProducerEntry]:
    if len(data) < _SNAPSHOT_HEAD.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few for a producer snapshot")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"producer snapshot has unknown version {version}")
    if crc != crc32c(memoryview(data)[_CRC_END:]) or len(data) != _SNAPSHOT_HEAD.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot("producer snapshot does not match its checksum")
    entries = []
    for row in _SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[_SNAPSHOT_HEAD.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first_offset = row
        entry = ProducerEntry(producer_id, epoch)
        entry.last_timestamp = timestamp
        entry.coordinator_epoch = coordinator_epoch
        entry.txn_first_offset = txn_first_offset
        if last_offset >= 0:
            first_sequence = last_sequence - delta if last_sequence >= delta else last_sequence - delta + 0x80000000
            entry.batches.append(SeenBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
        entries.append(entry)
    return entries
