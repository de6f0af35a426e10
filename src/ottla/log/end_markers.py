"""The control batch that ends a producer's transaction on a partition. `scan.end_marker` reads it."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from ottla.env.ports import Buffer
from ottla.log.partition_log import PartitionLog
from ottla.log.producers import EndMarker
from ottla.log.scan import ABORT, COMMIT, CONTROL_KEY, END_MARKER, ScannedBatch, end_marker
from ottla.record.batch import HEADER_SIZE, BatchHeader
from ottla.record.builder import build_plain_batch

# The only record: sizes, attributes and deltas; key: version and type; value: version and coordinator epoch.
_RECORD: Final = Struct(">5shh1shi1s")
_AROUND: Final = (b"\x20\x00\x00\x00\x08", b"\x0c", b"\x00")


@lru_cache(maxsize=16)  # all partitions of a transaction get the same
def marker_batch(producer_id: int, producer_epoch: int, is_commit: bool, coordinator_epoch: int, now_ms: int) -> bytes:
    key = CONTROL_KEY.pack(0, COMMIT if is_commit else ABORT)
    value = END_MARKER.pack(0, coordinator_epoch)
    return build_plain_batch([(key, value)], now_ms, producer_id, producer_epoch, control=True)


def note_end(log: PartitionLog, batch: Buffer, header: BatchHeader, offset: int) -> None:
    """Before anyone hears of the new high watermark: where the last stable offset is then depends on it."""
    marker = _own_marker(batch, header) or end_marker(ScannedBatch(0, header, memoryview(batch)))
    if marker is not None:
        try:
            log.note_transaction_end(header, marker, offset)
        except OSError as error:  # the index of aborted transactions: a restart makes it again from the log
            log.fail(error)


def _own_marker(batch: Buffer, header: BatchHeader) -> EndMarker | None:
    """Of a batch as `marker_batch` makes it: there it is known where everything lies."""
    if len(batch) != HEADER_SIZE + _RECORD.size:
        return None
    before, _, kind, between, _, coordinator_epoch, after = _RECORD.unpack_from(batch, HEADER_SIZE)
    if (before, between, after) != _AROUND or kind not in (ABORT, COMMIT):
        return None
    return EndMarker(kind == COMMIT, coordinator_epoch, header.max_timestamp)
