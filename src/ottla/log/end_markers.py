"""The control batch that ends a producer's transaction on a partition. `scan.end_marker` reads it."""

from __future__ import annotations

from functools import lru_cache

from ottla.env.ports import Buffer
from ottla.log.partition_log import PartitionLog
from ottla.log.producers import EndMarker
from ottla.log.scan import ABORT, COMMIT, CONTROL_KEY, END_MARKER, ScannedBatch, end_marker
from ottla.record.batch import BatchHeader, parse_header
from ottla.record.builder import build_plain_batch


@lru_cache(maxsize=16)  # all partitions of a transaction get the same
def marker_batch(producer_id: int, producer_epoch: int, is_commit: bool, coordinator_epoch: int, now_ms: int) -> bytes:
    key = CONTROL_KEY.pack(0, COMMIT if is_commit else ABORT)
    value = END_MARKER.pack(0, coordinator_epoch)
    return build_plain_batch([(key, value)], now_ms, producer_id, producer_epoch, control=True)


def note_end(log: PartitionLog, batch: Buffer, header: BatchHeader, offset: int) -> None:
    """Before anyone hears of the new high watermark: where the last stable offset is then depends on it."""
    marker = _marker_in(bytes(batch))
    if marker is not None:
        try:
            log.note_transaction_end(header, marker, offset)
        except OSError as error:  # the index of aborted transactions: a restart makes it again from the log
            log.fail(error)


@lru_cache(maxsize=16)
def _marker_in(batch: bytes) -> EndMarker | None:
    return end_marker(ScannedBatch(0, parse_header(batch), memoryview(batch)))
