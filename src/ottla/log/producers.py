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
from ottla.model.names import NO_EPOCH
from ottla.record.batch import BatchHeader

REMEMBERED_BATCHES: Final = 5
_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_HEAD: Final = Struct(">hIi")  # version, CRC of all that follows it, number of entries
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_END: Final = 6
_UNKNOWN_VERSION: Final = -1  # of transactions, as Kafka has it where it does not matter
_EPOCH_BUMPS: Final = 2  # the transaction version from which on each transaction has an epoch of its own
_LAST_EPOCH: Final = 2**15 - 1


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


class Verification:
    """A producer's transaction is about to begin here, and its coordinator is asked about it (KIP-890).

    A marker can only be expected from a coordinator that knows of the partition: a transaction that it does not know of
    would hang. If a marker comes while it is asked, what it answers is of no use any more.
    """

    __slots__ = ("adds", "epoch", "lowest_sequence", "since_ms", "verified_epoch")

    def __init__(self, epoch: int, sequence: int, adds: bool, now_ms: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence  # a later batch must not overtake one whose verification is tried again
        self.adds = adds  # the partition is added rather than verified: a client of transactions' second version
        self.since_ms = now_ms
        self.verified_epoch = NO_EPOCH

    def note(self, epoch: int, sequence: int) -> None:
        if epoch > self.epoch:
            self.epoch, self.lowest_sequence = epoch, sequence
        elif epoch == self.epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


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
        self._verifications: dict[int, Verification] = {}  # by producer id
        # First offset -> producer id. Transactions begin in the order of their offsets, so the first key is the lowest.
        self._ongoing: dict[int, int] = {}
        # First offset -> last offset: ended, but the end is not yet below the high watermark.
        self._ended: dict[int, int] = {}

    # -- checking and noting batches

    def check(self, header: BatchHeader) -> SeenBatch | Refused | None:
        """For a batch of a client with a producer id: its earlier self, the reason to refuse it, or None."""
        entry = self.entries.get(header.producer_id)
        if header.is_transactional:
            if entry is not None and (seen := entry.duplicate_of(header)) is not None:
                return seen
            refused = self.check_verified(header) or self._check_turn(entry, header)
            if refused is not None:
                return refused
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
            return self._old_epoch(header.producer_id, header.producer_epoch, entry.epoch)
        if header.producer_epoch > entry.epoch:
            if header.base_sequence != 0 and entry.epoch >= 0:
                return self._out_of_order(header, f"{entry.epoch} (current producer epoch)")
        elif header.base_sequence != 0 and entry.epoch >= 0:
            # An epoch is known but none of its batches: a marker bumped it. Its first batch starts at 0.
            return self._out_of_order(header, "-1 (current end sequence number)")
        return self._check_transaction(entry, header)

    def next_sequence(self, producer_id: int, epoch: int) -> int | None:
        """What the next batch of a producer begins with; None if nothing is known of it in this epoch."""
        entry = self.entries.get(producer_id)
        if entry is None or entry.epoch != epoch or not entry.batches:
            return None
        return (entry.batches[-1].last_sequence + 1) & 0x7FFFFFFF

    def _check_transaction(self, entry: ProducerEntry, header: BatchHeader) -> Refused | None:
        if entry.txn_first_offset >= 0 and not header.is_transactional:
            return Refused(
                ErrorCode.invalid_txn_state,
                f"Expected transactional write from producer {header.producer_id} in {self._name}",
            )
        return None

    def _old_epoch(self, producer_id: int, epoch: int, known: int) -> Refused:
        return Refused(
            ErrorCode.invalid_producer_epoch,
            f"Epoch of producer {producer_id} in {self._name} is {epoch}, which is smaller than the last seen epoch "
            f"{known}",
        )

    def _out_of_order(self, header: BatchHeader, known: str) -> Refused:
        return Refused(
            ErrorCode.out_of_order_sequence_number,
            f"Out of order sequence number for producer {header.producer_id} in {self._name}: "
            f"{header.base_sequence} (incoming seq. number), {known}",
        )

    # -- transactions

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer has a transaction open here, in this epoch."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, adds: bool, now_ms: int
    ) -> Verification | Refused | None:
        """What the coordinator is to be asked about before a batch is appended; None if a transaction is open."""
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            return self._old_epoch(producer_id, epoch, entry.epoch)
        if self.has_open(producer_id, epoch):
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = self._verifications[producer_id] = Verification(epoch, sequence, adds, now_ms)
        else:
            verification.note(epoch, sequence)
        return verification

    def verified(self, producer_id: int, epoch: int, verification: Verification) -> None:
        """The coordinator knows of the transaction. Whether that still counts, the next batch is told.

        Somebody may have asked with another epoch meanwhile, a higher one too: that alone makes nobody wrong.
        """
        if self._verifications.get(producer_id) is verification:
            verification.verified_epoch = epoch

    def check_verified(self, header: BatchHeader) -> Refused | None:
        """A transaction begins only where its coordinator knows of it. Also for batches of other coordinators."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        entry = self.entries.get(producer_id)
        if entry is not None and epoch < entry.epoch:
            return self._old_epoch(producer_id, epoch, entry.epoch)
        if self.has_open(producer_id, epoch):
            return None
        verification = self._verifications.get(producer_id)
        if verification is not None and verification.verified_epoch == epoch:
            return None
        return Refused(
            ErrorCode.invalid_txn_state,
            f"Producer {producer_id} has no open transaction in {self._name}, and its coordinator was not asked",
        )

    def _check_turn(self, entry: ProducerEntry | None, header: BatchHeader) -> Refused | None:
        verification = self._verifications.get(header.producer_id)
        if verification is None:
            return None
        if verification.adds and header.base_sequence != 0 and (entry is None or not entry.batches):
            return self._out_of_order(header, "0 (expected, as nothing is known of the producer)")
        if header.base_sequence > verification.lowest_sequence:
            return self._out_of_order(header, f"{verification.lowest_sequence} (earliest seen sequence)")
        return None

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, version: int) -> Refused | None:
        """With transactions' second version a marker has a new epoch; the same one only if it is written again."""
        entry = self.entries.get(producer_id)
        known_epoch = entry.epoch if entry is not None else NO_EPOCH
        if epoch < known_epoch:
            return self._old_epoch(producer_id, epoch, known_epoch)
        if version == _UNKNOWN_VERSION:
            return Refused(
                ErrorCode.unknown_server_error,
                f"The end of a transaction of producer {producer_id} in {self._name} does not say which version it is",
            )
        if entry is None:
            return None
        is_again = epoch == entry.epoch and (entry.txn_first_offset < 0 or epoch == _LAST_EPOCH)
        if version >= _EPOCH_BUMPS and epoch == entry.epoch and not is_again:
            return self._old_epoch(producer_id, epoch, entry.epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            return Refused(
                ErrorCode.transaction_coordinator_fenced,
                f"The end of a transaction of producer {producer_id} in {self._name} comes from a coordinator of epoch "
                f"{coordinator_epoch}, after one of epoch {entry.coordinator_epoch}",
            )
        return None

    def note(self, header: BatchHeader, base_offset: int, max_timestamp: int) -> None:
        """A data batch was appended (or is replayed)."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        entry.note(header, base_offset, max_timestamp)
        if header.is_transactional:
            if entry.txn_first_offset < 0:
                entry.txn_first_offset = base_offset
                self._ongoing[base_offset] = producer_id
            if self._verifications:
                self._verifications.pop(producer_id, None)

    def note_end(self, header: BatchHeader, marker: EndMarker, offset: int) -> AbortedTxn | None:
        """A transaction's end marker was appended (or is replayed); gives what belongs into the `.txnindex`."""
        entry = self.entries.get(header.producer_id)
        if entry is None:
            entry = self.entries[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        if header.producer_epoch != entry.epoch:
            entry.epoch = header.producer_epoch
            entry.batches.clear()
        verification = self._verifications.get(header.producer_id)
        if verification is not None and not (verification.adds and verification.epoch == header.producer_epoch):
            del self._verifications[header.producer_id]  # else it is of the next transaction already
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

    def oldest_open_ms(self) -> int:
        """When the producer of the oldest open transaction was heard last; -1 if none is open."""
        oldest = next(iter(self._ongoing.values()), None)
        return self.entries[oldest].last_timestamp if oldest in self.entries else -1

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
        for producer_id, verification in list(self._verifications.items()):
            if now_ms - verification.since_ms >= expiration_ms:
                del self._verifications[producer_id]

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
        self._verifications.clear()
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
