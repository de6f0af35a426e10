"""The first pass: the newest offset of every key in the part of the log that is not clean yet.

The map has a fixed size. When it is full the pass ends before the end of the log, and the next cleaning goes on there.
Whenever a key is met again the record before is marked, a bit for each: the second pass need not look those keys up,
and not even unpack a batch all of whose records are marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ottla.env.ports import File, Workplace
from ottla.log.cleaning import kernels
from ottla.log.cleaning.contract import Contract, Limits, Outcome, Source
from ottla.log.cleaning.pieces import Pace, checked_header, damaged, in_pieces, marker_of, records_of
from ottla.log.cleaning.transactions import CleanedTransactions
from ottla.log.paths import LOG_SUFFIX, offset_name

_WORDS_A_SLOT: Final = 3
_BYTES_A_SLOT: Final = 24
_MOST_SLOTS: Final = 2**31 - 1  # a slot is found by 32 bits of a hash
_MOST_MARKS: Final = 2**27  # 16 MiB: offsets beyond are looked up


class OffsetMap:
    def __init__(self, limits: Limits, secret: bytes, first: int, end: int) -> None:
        slots = min(max(limits.map_bytes // _BYTES_A_SLOT, 2), _MOST_SLOTS)
        marks = min(max(end - first, 0), _MOST_MARKS)
        self.slots = slots
        self.keys = kernels.Keys(
            table=np.zeros(slots * _WORDS_A_SLOT, dtype=np.uint64),  # pages come as they are used
            secret=np.frombuffer(secret, dtype=np.uint64),
            most=min(max(int(slots * limits.map_load_factor), 1), slots - 1),
            first=first,
            marks=np.zeros((marks + 63) // 64, dtype=np.uint64),
            hashes=np.empty((kernels.BLOCK, 2), dtype=np.uint64),
            offsets=np.empty(kernels.BLOCK, dtype=np.int64),
        )
        self.entries = 0
        self.latest = -1
        """The last offset that was looked at."""
        self.checked: set[int] = set()
        """Segments, by their base offsets, of which all checksums are right; not the one in which the map got full."""

    @property
    def utilization(self) -> float:
        return self.entries / self.slots


class _Mapping:
    def __init__(self, place: Workplace, contract: Contract, pace: Pace, outcome: Outcome) -> None:
        self.map = OffsetMap(contract.limits, contract.secret, contract.first_dirty, contract.bound)
        self._place = place
        self._contract = contract
        self._pace = pace
        self._outcome = outcome
        self._numbers = np.zeros(kernels.NUMBERS, dtype=np.int64)
        self._numbers[kernels.LATEST] = -1
        relevant = [txn for txn in contract.aborted if txn.last_offset >= contract.first_dirty]
        self._transactions = CleanedTransactions(relevant)

    def run(self) -> OffsetMap:
        contract, numbers = self._contract, self._numbers
        sources = _from(contract.sources, contract.first_dirty)
        for number, source in enumerate(sources):
            following = sources[number + 1].base_offset if number + 1 < len(sources) else contract.bound
            if not self._map_segment(source):
                break
            self.map.checked.add(source.base_offset)
            numbers[kernels.LATEST] = max(numbers[kernels.LATEST], following - 1)
        self.map.entries, self.map.latest = int(numbers[kernels.ENTRIES]), int(numbers[kernels.LATEST])
        self._outcome.messages_without_key = int(numbers[kernels.NO_KEY])
        return self.map

    def _map_segment(self, source: Source) -> bool:
        """False when the map is full."""
        file = self._place.disk.open(f"{self._contract.folder}/{offset_name(source.base_offset)}{LOG_SUFFIX}")
        try:
            self._outcome.map_bytes_read += source.size
            limit = self._contract.limits.buffer_bytes
            return in_pieces(file, source.size, limit, self._pace, lambda data: self._map_piece(file, data))
        finally:
            file.close()

    def _map_piece(self, file: File, data: Any) -> int | None:
        numbers = self._numbers
        numbers[kernels.AT] = 0
        while True:
            kernels.map_batches(data, data.size, self.map.keys, numbers)
            why = numbers[kernels.WHY]
            if why == kernels.AT_SPECIAL:
                why = self._map_special(file, data, int(numbers[kernels.AT]))
                if why == kernels.AT_END:
                    continue
            if why == kernels.MAP_FULL:
                return None
            if why == kernels.DAMAGED:
                raise damaged(file, int(numbers[kernels.AT]))
            return int(numbers[kernels.AT])

    def _map_special(self, file: File, data: Any, at: int) -> int:
        """A batch that is compressed, or part of a transaction, or ends one."""
        numbers, first_dirty = self._numbers, self._contract.first_dirty
        self._pace.let_others()
        header = checked_header(data, at, file)
        if header.is_control:
            self._transactions.on_marker(header.producer_id, header.last_offset, marker_of(data, at, header, file))
        elif (
            not self._transactions.on_data(header.producer_id, header.last_offset, header.is_transactional)
            and header.last_offset >= first_dirty
        ):
            records = records_of(data, at, header, file)
            why = kernels.map_records(
                records, 0, records.size, header.record_count, header.base_offset, self.map.keys, numbers
            )
            if why != kernels.AT_END:
                return why
        if header.last_offset >= first_dirty:
            numbers[kernels.LATEST] = max(numbers[kernels.LATEST], header.last_offset)
        numbers[kernels.AT] = at + header.size
        return kernels.AT_END


def _from(sources: Sequence[Source], offset: int) -> Sequence[Source]:
    """From the one on that an offset lies in."""
    first = 0
    for number, source in enumerate(sources):
        if source.base_offset <= offset:
            first = number
    return sources[first:]


def build_map(place: Workplace, contract: Contract, pace: Pace, outcome: Outcome) -> OffsetMap:
    return _Mapping(place, contract, pace, outcome).run()
