"""The second pass: segments are copied without the records that a later one of the same key replaces."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ottla.env.ports import File, Workplace
from ottla.log.cleaning import kernels
from ottla.log.cleaning.cleaned_segment import CleanedSegment
from ottla.log.cleaning.contract import CleanedGroup, Contract, Outcome, Source
from ottla.log.cleaning.offset_map import OffsetMap
from ottla.log.cleaning.pieces import Pace, checked_header, damaged, in_pieces, marker_of, records_of
from ottla.log.cleaning.transactions import CleanedTransactions
from ottla.log.paths import LOG_SUFFIX, offset_name
from ottla.record.batch import DELETE_HORIZON_BIT, HEADER_SIZE, TIMESTAMP_TYPE_BIT, BatchHeader
from ottla.record.compression import compress

_ROWS: Final = 64 * 1024
_LAST_MS: Final = 0x7FFFFFFFFFFFFFFF
_ROOM: Final = 3  # how many times its size a batch can become, if all its times are written anew


class Filtering:
    """Of one log. Groups of segments are to be cleaned in the order of their offsets."""

    def __init__(self, place: Workplace, contract: Contract, chart: OffsetMap, pace: Pace, outcome: Outcome) -> None:
        self._place = place
        self._contract = contract
        self._map = chart
        self._pace = pace
        self._outcome = outcome
        horizon = contract.now_ms + contract.delete_retention_ms
        self._horizon = horizon if horizon <= _LAST_MS else -1  # as in Kafka, what stays for ever gets none
        self._transactions = CleanedTransactions(contract.aborted)
        self._numbers = np.zeros(kernels.NUMBERS, dtype=np.int64)
        self._numbers[kernels.LATEST] = chart.latest
        self._rows = np.empty((_ROWS, 3), dtype=np.int64)
        self._set_room(_ROOM * contract.limits.buffer_bytes)
        self._found = np.zeros(kernels.FOUND, dtype=np.int64)
        self._make_scratch(contract.limits.buffer_bytes)
        known = sorted(row for row in contract.producers if row.last_offset >= 0)
        known.sort(key=lambda row: row.last_offset)
        self._last_batches = kernels.Producers(
            np.array([row.last_offset for row in known], dtype=np.int64),
            np.array([row.producer_id for row in known], dtype=np.int64),
        )
        self._producers = {row.producer_id: row for row in contract.producers}
        self._cleaned: CleanedSegment | None = None

    def _set_room(self, size: int) -> None:
        self._target = np.empty(size, dtype=np.uint8)

    def clean(self, group: tuple[Source, ...]) -> CleanedGroup:
        contract, numbers = self._contract, self._numbers
        base_offset = group[0].base_offset
        cleaned = self._cleaned = CleanedSegment(
            self._place.disk, contract.folder, base_offset, contract.index_interval
        )
        self._transactions.kept = []
        for source in group:
            self._filter(source)
            self._outcome.bytes_read += source.size
        self._flush()
        cleaned.finish(self._transactions.kept, self._place.disk.modified_ms(self._path(group[-1])))
        self._outcome.bytes_written += cleaned.size
        self._outcome.messages_read = int(numbers[kernels.MESSAGES_READ])
        self._outcome.messages_written = int(numbers[kernels.MESSAGES_KEPT])
        self._outcome.messages_without_key += int(numbers[kernels.NO_KEY])
        numbers[kernels.NO_KEY] = 0
        return CleanedGroup(base_offset, tuple(source.base_offset for source in group), cleaned.size)

    def _path(self, source: Source) -> str:
        return f"{self._contract.folder}/{offset_name(source.base_offset)}{LOG_SUFFIX}"

    def _filter(self, source: Source) -> None:
        contract = self._contract
        file = self._place.disk.open(self._path(source))
        verify = source.base_offset not in self._map.checked
        try:
            in_pieces(
                file, source.size, contract.limits.buffer_bytes, self._pace,
                lambda data: self._filter_piece(file, data, verify),
            )  # fmt: skip
        finally:
            file.close()

    def _filter_piece(self, file: File, data: Any, verify: bool) -> int:
        numbers = self._numbers
        numbers[kernels.AT] = 0
        self._need_scratch(data.size)
        while True:
            kernels.filter_batches(
                data, data.size, verify, self._map.keys, self._contract.now_ms, self._horizon, self._contract.bound,
                self._last_batches, self._scratch, self._target, self._rows, numbers,
            )  # fmt: skip
            why, at = numbers[kernels.WHY], int(numbers[kernels.AT])
            if why == kernels.AT_SPECIAL:
                self._filter_special(file, data, at, verify)
            elif why == kernels.NO_ROOM:
                if numbers[kernels.ROWS]:
                    self._flush()
                else:
                    self._set_room(_ROOM * data.size)
            elif why == kernels.DAMAGED:
                raise damaged(file, at)
            else:
                return at

    def _make_scratch(self, size: int) -> None:
        most = size // kernels.SHORTEST_RECORD + 2
        self._scratch = kernels.Scratch(np.empty(most, dtype=np.int64), np.empty(most, dtype=np.bool_), self._found)
        self._scratch_for = size

    def _need_scratch(self, size: int) -> None:
        if size > self._scratch_for:
            self._make_scratch(size)

    # -- one batch that is compressed, or part of a transaction, or ends one

    def _filter_special(self, file: File, data: Any, at: int, verify: bool) -> None:
        self._pace.let_others()
        header = checked_header(data, at, file, verify=verify)
        numbers, found = self._numbers, self._found
        horizon = header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None
        is_over = horizon is not None and horizon <= self._contract.now_ms
        if header.is_control:
            may_go = self._transactions.on_marker(
                header.producer_id, header.last_offset, marker_of(data, at, header, file)
            )
            goes, latest = may_go and is_over, -1  # a marker has no key that another one could replace
        else:
            may_go = False
            goes = self._transactions.on_data(header.producer_id, header.last_offset, header.is_transactional)
            latest = int(numbers[kernels.LATEST])
        numbers[kernels.AT] = at + header.size
        found[:] = 0
        if not goes and kernels.are_all_replaced(self._map.keys, header.base_offset, header.last_offset, latest):
            numbers[kernels.MESSAGES_READ] += header.record_count
        elif not goes:
            records = records_of(data, at, header, file)
            self._need_scratch(records.size)
            sound = kernels.select(
                records, 0, records.size, header.record_count, header.base_offset, header.base_timestamp, latest,
                is_over, self._map.keys, self._scratch, numbers,
            )  # fmt: skip
            if not sound:
                raise damaged(file, at)
            if found[kernels.KEPT]:
                wants_horizon = bool(found[kernels.TOMBSTONES]) or may_go
                needs_horizon = wants_horizon and horizon is None and self._horizon >= 0
                self._keep(data, at, header, records, needs_horizon)
                return
        if header.next_offset == self._contract.bound or self._is_last_of_producer(header):
            batch = np.empty(HEADER_SIZE, dtype=np.uint8)
            kernels.write_empty(data, at, batch, 0)
            self._put(batch, header.last_offset, header.max_timestamp)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        known = self._producers.get(header.producer_id) if header.producer_id >= 0 else None
        if known is None:
            return False
        if known.last_offset >= 0:
            return header.last_offset == known.last_offset
        return header.is_control and header.producer_epoch == known.epoch

    def _keep(self, data: Any, at: int, header: BatchHeader, records: Any, needs_horizon: bool) -> None:
        found = self._found
        if found[kernels.KEPT] == header.record_count and not needs_horizon:
            self._put(data[at : at + header.size], header.last_offset, header.max_timestamp, sealed=True)
            return
        batch = np.empty(HEADER_SIZE + _ROOM * records.size, dtype=np.uint8)
        end = kernels.rebuild(
            data, at, records, header.record_count, self._scratch, header.base_timestamp,
            self._horizon if needs_horizon else -1, batch, 0,
        )  # fmt: skip
        batch = batch[:end]
        if header.codec:
            packed = np.frombuffer(compress(header.codec, batch[HEADER_SIZE:].tobytes()), dtype=np.uint8)
            batch = np.concatenate((batch[:HEADER_SIZE], packed))
        is_append_time = header.attributes & TIMESTAMP_TYPE_BIT
        max_timestamp = header.max_timestamp if is_append_time else int(found[kernels.MAX_TIMESTAMP])
        self._put(batch, header.last_offset, max_timestamp)

    def _put(self, batch: Any, last_offset: int, max_timestamp: int, *, sealed: bool = False) -> None:
        numbers = self._numbers
        if numbers[kernels.OUT] + batch.size > self._target.size or numbers[kernels.ROWS] >= _ROWS:
            self._flush()
            if batch.size > self._target.size:
                self._set_room(batch.size)
        start = int(numbers[kernels.OUT])
        end = start + batch.size
        self._target[start:end] = batch
        if not sealed:
            kernels.seal(self._target, start, end)
        self._rows[numbers[kernels.ROWS]] = batch.size, last_offset, max_timestamp
        numbers[kernels.OUT] = end
        numbers[kernels.ROWS] += 1

    def _flush(self) -> None:
        numbers = self._numbers
        size, count = int(numbers[kernels.OUT]), int(numbers[kernels.ROWS])
        if size:
            assert self._cleaned is not None
            self._cleaned.append(self._target[:size], self._rows, count)
            self._pace.take(size)
        numbers[kernels.OUT] = numbers[kernels.ROWS] = 0
