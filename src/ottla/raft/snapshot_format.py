"""Snapshots of the metadata log as files: `OFFSET-EPOCH.checkpoint`, in Kafka's format.

    control batch    SnapshotHeader; with kraft.version 1 also KRaftVersion and Voters
    batches          whatever records add up to the state at that offset
    control batch    SnapshotFooter: the file is whole

Offsets within the file count from 0, and every batch has the epoch of the snapshot. The end offset in the name is that
of the first record which is not contained.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, NamedTuple

from ottla.env.ports import Buffer
from ottla.model.errors import OttlaError
from ottla.raft.control_records import (
    ControlType,
    control_type,
    decode_control,
    last_contained_timestamp,
    snapshot_footer_batch,
    snapshot_header_batch,
)
from ottla.raft.log_view import KRaftVersionRecord, OffsetAndEpoch, VotersRecord
from ottla.raft.voters import VoterSet
from ottla.record.batch import computed_crc, new_head, parse_header
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import CorruptBatch

SUFFIX: Final = ".checkpoint"
PART_SUFFIX: Final = ".checkpoint.part"
DELETED_SUFFIX: Final = ".checkpoint.deleted"
_NAME: Final = re.compile(r"(\d{20})-(\d{10}).*?(\.checkpoint(?:\.part|\.deleted)?)")


class Contents(NamedTuple):
    last_contained_timestamp: int
    kraft_version: int
    voters: VoterSet | None
    batches: tuple[memoryview, ...]
    """Without the control batches."""


def file_name(id: OffsetAndEpoch, suffix: str = SUFFIX) -> str:
    return f"{id.offset:020d}-{id.epoch:010d}{suffix}"


def parse_name(name: str) -> tuple[OffsetAndEpoch, str] | None:
    """Which snapshot a file is or was to be, and its suffix. Kafka puts random digits before `.checkpoint.part`."""
    found = _NAME.fullmatch(name)
    return None if found is None else (OffsetAndEpoch(int(found[1]), int(found[2])), found[3])


def encode(
    batches: Iterable[bytes],
    now_ms: int,
    *,
    epoch: int = 0,
    last_contained_timestamp: int = 0,
    kraft_version: int = 0,
    voters: VoterSet | None = None,
) -> bytes:
    pieces = encode_pieces(
        batches,
        now_ms,
        epoch=epoch,
        last_contained_timestamp=last_contained_timestamp,
        kraft_version=kraft_version,
        voters=voters,
    )
    return b"".join(pieces)


def encode_pieces(
    batches: Iterable[bytes],
    now_ms: int,
    *,
    epoch: int,
    last_contained_timestamp: int,
    kraft_version: int,
    voters: VoterSet | None,
) -> Iterator[bytes]:
    """The same, a batch at a time: a large state is neither held twice nor encoded in one go."""
    offset = 0
    header = snapshot_header_batch(last_contained_timestamp, now_ms, kraft_version, voters)
    for batch in chain((header,), batches, (snapshot_footer_batch(now_ms),)):
        parsed = parse_header(batch)
        head = new_head(offset, parsed.length, epoch)
        yield head + batch[len(head) :]
        offset += parsed.record_count


def decode(data: Buffer, source: str, advice: str) -> Contents:
    """OttlaError if the file is cut or damaged: half of a state is worse than none. `advice` says what to do then."""
    kinds: list[int] = []
    batches: list[memoryview] = []
    timestamp, kraft_version = 0, 0
    voters: VoterSet | None = None
    try:
        for header, batch in iterate_batches(data):
            if header.crc != computed_crc(batch):
                raise CorruptBatch(f"the checksum of the batch at offset {header.base_offset} is wrong")
            if not header.is_control:
                batches.append(batch)
                continue
            for record in read_records(batch):
                kinds.append(control_type(record))
                if kinds[-1] == ControlType.SNAPSHOT_HEADER:
                    timestamp = last_contained_timestamp(record)
                match decode_control(record):
                    case KRaftVersionRecord(version):
                        kraft_version = version
                    case VotersRecord(found):
                        voters = found
    except CorruptBatch as error:
        raise OttlaError(f"{source} is damaged: {error}. {advice}") from error
    if kinds[:1] != [ControlType.SNAPSHOT_HEADER] or kinds[-1:] != [ControlType.SNAPSHOT_FOOTER]:
        raise OttlaError(f"{source} has no header or no footer: it was cut. {advice}")
    return Contents(timestamp, kraft_version, voters, tuple(batches))


def timestamp_in(beginning: Buffer) -> int:
    """That of the last batch which a snapshot contains, from its own first batch; 0 if it does not say."""
    for header, batch in iterate_batches(beginning):
        if header.is_control:
            for record in read_records(batch):
                if control_type(record) == ControlType.SNAPSHOT_HEADER:
                    return last_contained_timestamp(record)
        break
    return 0
