"""A segment that is being written by a cleaning, with its indexes, under names that end with `.cleaned`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ottla.env.ports import Disk, File
from ottla.log.cleaning import kernels
from ottla.log.paths import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from ottla.log.txn_index import AbortedTxn, packed

_A_LITTLE: Final = 4 << 20  # that is written before the disk is asked to begin: the node's own writes get in between


class CleanedSegment:
    def __init__(self, disk: Disk, folder: str, base_offset: int, index_interval: int) -> None:
        self.size = 0
        self._written_out = 0
        self._disk = disk
        self._stem = f"{folder}/{offset_name(base_offset)}"
        self._base_offset = base_offset
        self._interval = index_interval
        self._offsets = bytearray()
        self._times = bytearray()
        self._index = np.zeros(kernels.INDEX_NUMBERS, dtype=np.int64)
        self._index[kernels.LARGEST] = self._index[kernels.LAST_TIME] = -1
        self._file = self._new(LOG_SUFFIX)

    def _new(self, suffix: str) -> File:
        file = self._disk.open(self._stem + suffix + CLEANED_SUFFIX, create=True)
        if file.size():  # of a cleaning that was cut off
            file.truncate(0)
        return file

    def append(self, data: Any, rows: Any, count: int) -> None:
        """Batches, and for each of them a row: its size, its last offset, its largest time."""
        offsets, times = np.empty((count, 2), dtype=np.int64), np.empty((count, 2), dtype=np.int64)
        made, timed = kernels.index_rows(rows, count, self._base_offset, self._interval, self._index, offsets, times)
        self._file.write((memoryview(data),), self.size)
        self.size += data.size
        if self.size - self._written_out >= _A_LITTLE:
            self._file.write_out(self._written_out, self.size - self._written_out)
            self._written_out = self.size
        self._offsets += offsets[:made].astype(">i4").tobytes()
        self._times += _time_entries(times[:timed])

    def finish(self, aborted: Sequence[AbortedTxn], modified_ms: int) -> None:
        """Everything durable but the names. It is as old as what it was made from."""
        index = self._index
        if index[kernels.LARGEST] > index[kernels.LAST_TIME]:
            relative = index[kernels.LARGEST_AT] - self._base_offset
            self._times += _time_entries(np.array([[index[kernels.LARGEST], relative]], dtype=np.int64))
        self._disk.set_modified_ms(self._file.path, modified_ms)
        self._file.sync()
        self._file.close()
        self._write(INDEX_SUFFIX, self._offsets)
        self._write(TIME_INDEX_SUFFIX, self._times)
        if aborted:
            self._write(TXN_INDEX_SUFFIX, b"".join(map(packed, aborted)))

    def _write(self, suffix: str, content: bytes | bytearray) -> None:
        file = self._new(suffix)
        try:
            if content:
                file.write((content,), 0)
            file.sync()
        finally:
            file.close()


def _time_entries(times: Any) -> bytes:
    entries = np.empty(len(times), dtype=[("time", ">i8"), ("offset", ">i4")])
    entries["time"], entries["offset"] = times[:, 0], times[:, 1]
    return entries.tobytes()
