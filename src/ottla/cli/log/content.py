"""What is in the files of a log, as plain items: batches with their records, and the entries of all other files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ottla.cli.log.decoding import batch_item, plain, record_item
from ottla.cli.log.finding import Kind, LogFile
from ottla.cli.log.read_only import ReadOnlyDisk
from ottla.env.files import read_file
from ottla.log.checkpoints import CorruptCheckpoint, read_clean_shutdown, read_epochs, read_offsets, read_topic_id
from ottla.log.index import EntryFile, OffsetIndex, TimeIndex
from ottla.log.producers import CorruptSnapshot, read_snapshot
from ottla.log.scan import ScannedBatch, batches
from ottla.log.txn_index import TxnIndex
from ottla.model.errors import OttlaError
from ottla.model.ids import uuid_text
from ottla.record.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC_V2, computed_crc, parse_header
from ottla.record.reader import read_records
from ottla.record.records import CorruptBatch

DISK: Final = ReadOnlyDisk()
_PIECE: Final = 1 << 20
_ANY_SIZE: Final = 1 << 31


def log_batches(path: str) -> Iterator[ScannedBatch]:
    """Those of one segment or snapshot, from its beginning to where there is none."""
    file = DISK.open(path)
    yield from batches(file, 0, file.size())


def batch_items(file: LogFile, *, with_records: bool, from_offset: int = 0) -> Iterator[dict[str, Any]]:
    """Each batch, with its records under `content`; last the bytes that are no batch, if there are any."""
    end = 0
    for scanned in log_batches(file.path):
        header = scanned.header
        end = scanned.position + header.size
        if header.last_offset < from_offset:
            continue
        if header.magic != MAGIC_V2:
            yield {"position": scanned.position, "size": header.size, "unreadable": f"a batch of magic {header.magic}"}
            continue
        item = batch_item(header, scanned.position, crc_ok=computed_crc(scanned.data) == header.crc)
        if with_records:
            item |= _content(scanned, file)
        yield item
    rest = rest_of(file.path, end)
    if rest is not None:
        yield {"position": end, "size": DISK.file_size(file.path) - end, "unreadable": rest}


def _content(scanned: ScannedBatch, file: LogFile) -> dict[str, Any]:
    control = scanned.header.is_control
    try:
        records = read_records(scanned.data)
    except CorruptBatch as error:
        return {"unreadable": str(error)}
    return {"content": [record_item(record, control=control, metadata=file.is_metadata) for record in records]}


def rest_of(path: str, position: int) -> str | None:
    """What lies behind the last batch, if anything does."""
    file = DISK.open(path)
    size = file.size() - position
    if size == 0:
        return None
    if all_zero(path, position):
        return f"{size} bytes of zeros: room that was set aside, or that a loss of power left"
    head = file.pread(HEADER_SIZE, position)
    if len(head) < HEADER_SIZE:
        return f"{size} bytes, too few for a batch: it was only half written"
    header = parse_header(head)
    if header.magic == MAGIC_V2 and header.length >= HEADER_SIZE - LOG_OVERHEAD:
        return (
            f"a batch of offset {header.base_offset} that says it has {header.size} bytes, of which {size} are there: "
            "it was only half written"
        )
    return f"{size} bytes that are no batch"


def all_zero(path: str, position: int) -> bool:
    file = DISK.open(path)
    while piece := file.pread(_PIECE, position):
        if piece.count(0) != len(piece):
            return False
        position += len(piece)
    return True


def offset_index(file: LogFile) -> OffsetIndex:
    index = OffsetIndex(DISK, file.path, file.offset, _ANY_SIZE)
    index.entries.load(DISK.file_size(file.path))
    return index


def time_index(file: LogFile) -> TimeIndex:
    index = TimeIndex(DISK, file.path, file.offset, _ANY_SIZE)
    index.load(DISK.file_size(file.path))
    return index


def used_entries(entries: EntryFile) -> int:
    """Without the zeros at its end: a running Kafka sets room aside, which a killed one leaves behind."""
    data = entries.in_file().rstrip(b"\0")
    return -(-len(data) // entries.entry_size)


def entries(file: LogFile) -> list[dict[str, Any]]:
    """What a file other than a segment says. OttlaError if it cannot be read."""
    try:
        return _entries(file)
    except (CorruptSnapshot, CorruptCheckpoint, ValueError) as error:
        raise OttlaError(f"{file.path}: {error}") from None


def _entries(file: LogFile) -> list[dict[str, Any]]:
    match file.kind:
        case Kind.OFFSET_INDEX:
            index = offset_index(file)
            pairs = (index.entry(n) for n in range(used_entries(index.entries)))
            return [{"offset": offset, "position": position} for offset, position in pairs]
        case Kind.TIME_INDEX:
            times = time_index(file)
            return [times.entry(n)._asdict() for n in range(used_entries(times.entries))]
        case Kind.TXN_INDEX:
            return [txn._asdict() for txn in TxnIndex(DISK, file.path).aborted]
        case Kind.PRODUCERS:
            return [_producer(entry) for entry in read_snapshot(read_file(DISK, file.path))]
        case Kind.EPOCHS:
            return [start._asdict() for start in read_epochs(DISK, file.path)]
        case Kind.OFFSETS:
            offsets = read_offsets(DISK, file.path)
            return [{"topic": topic, "partition": number, "offset": at} for (topic, number), at in offsets.items()]
        case Kind.TOPIC_ID:
            topic_id = read_topic_id(DISK, file.path)
            return [{"topic_id": None if topic_id is None else uuid_text(topic_id)}]
        case Kind.META:
            from ottla.metadata import meta_properties

            return [plain(meta_properties.decode(read_file(DISK, file.path), file.path))]
        case Kind.QUORUM:
            from ottla.raft import quorum_state

            return [plain(quorum_state.decode(read_file(DISK, file.path), file.path))]
        case Kind.CLEAN_SHUTDOWN:
            from os.path import dirname

            return [{"broker_epoch": read_clean_shutdown(DISK, dirname(file.path))}]
        case Kind.LOG | Kind.SNAPSHOT:
            raise AssertionError(f"{file.path} has batches")


def _producer(entry: Any) -> dict[str, Any]:
    last = entry.batches[-1] if entry.batches else None
    return {
        "producer_id": entry.producer_id,
        "epoch": entry.epoch,
        "last_sequence": None if last is None else last.last_sequence,
        "last_offset": None if last is None else last.last_offset,
        "last_timestamp": entry.last_timestamp,
        "coordinator_epoch": entry.coordinator_epoch,
        "transaction_began_at": None if entry.txn_first_offset < 0 else entry.txn_first_offset,
    }
