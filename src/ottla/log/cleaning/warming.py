"""Compiles the loops of `kernels.py` where that was not done yet, by running each once on next to nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.log.cleaning import kernels
from ottla.record.batch import HEADER_SIZE
from ottla.record.builder import build_batch
from ottla.record.records import Record


def warm_up() -> bool:
    """True if something was compiled that was not found from an earlier time, and that another process will find."""
    batch = np.frombuffer(build_batch([Record(b"k", b"v", 1), Record(b"k", None, 2)]), dtype=np.uint8)
    numbers, found = np.zeros(kernels.NUMBERS, dtype=np.int64), np.zeros(kernels.FOUND, dtype=np.int64)
    none, offsets = np.empty(0, dtype=np.int64), np.empty(kernels.BLOCK, dtype=np.int64)
    keys = kernels.Keys(
        table=np.zeros(24, dtype=np.uint64),
        secret=np.frombuffer(bytes(16), dtype=np.uint64),
        most=4,
        first=0,
        marks=np.zeros(1, dtype=np.uint64),
        hashes=np.empty((kernels.BLOCK, 2), dtype=np.uint64),
        offsets=offsets,
    )
    scratch = kernels.Scratch(np.empty(batch.size, dtype=np.int64), np.empty(batch.size, dtype=np.bool_), found)
    target, rows = np.empty(4 * batch.size, dtype=np.uint8), np.zeros((4, 3), dtype=np.int64)
    kernels.map_batches(batch, batch.size, keys, numbers)
    kernels.map_records(batch, HEADER_SIZE, batch.size, 2, 0, keys, numbers)
    numbers[kernels.AT] = 0
    kernels.filter_batches(
        batch, batch.size, True, keys, 0, 1, -1, kernels.Producers(none, none), scratch, target, rows, numbers
    )
    kernels.are_all_replaced(keys, 0, 1, 1)
    kernels.select(batch, HEADER_SIZE, batch.size, 2, 0, 0, 1, False, keys, scratch, numbers)
    kernels.rebuild(batch, 0, batch, 2, scratch, 0, 1, target, 0)
    kernels.write_empty(batch, 0, target, 0)
    kernels.seal(target, 0, HEADER_SIZE)
    pairs = np.empty((4, 2), dtype=np.int64)
    kernels.index_rows(rows, 1, 0, 0, np.zeros(kernels.INDEX_NUMBERS, dtype=np.int64), pairs, pairs)
    loops: tuple[Any, ...] = (kernels.map_batches, kernels.filter_batches, kernels.index_rows)
    return kernels.is_kept and any(loop.stats.cache_misses for loop in loops)
