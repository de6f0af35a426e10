"""The loops over every record that is read, compiled by numba: fetched bytes into columns.

What a batch and a record look like is known in `log/cleaning/kernels.py`, whose conventions hold here too. numba's
cache notices changes of this file, and not of that one: whoever changes the loops there removes `__pycache__` here.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.log.cleaning.kernels import (
    APPEND_TIME_BIT,
    DAMAGED,
    HEADER,
    OVERHEAD,
    SHORTEST_RECORD,
    compiled,
    copy,
    read_int,
    read_record,
    read_varint,
)
from ottla.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT

CODEC_BITS: Final = 0x07
ABORT_MARKER: Final = 0

# what is known of a batch that has records to give: where they are, and what they count from
START, END, BASE_OFFSET, RECORDS, BASE_TIMESTAMP, ATTRIBUTES, APPEND_TIME, BATCH_START = range(8)
BATCH_NUMBERS: Final = 8

# how `list_batches` has ended
WHOLE, OLD_FORMAT, TABLE_FULL = 0, 5, 6  # or DAMAGED

# numbers that `list_batches` goes on from; the last is for the columns
AT, BATCHES, NEXT_OFFSET, ABORTED_SEEN, ABORTED_OPEN, IS_DONE = range(6)
LIST_NUMBERS: Final = 6

# how full the columns are
ROWS, KEY_BYTES, VALUE_BYTES, HEADERS, NAME_BYTES, HEADER_BYTES = range(6)
FILL_NUMBERS: Final = 6


@compiled
def list_batches(
    data: Any, size: int, from_offset: int, until_offset: int, aborted: Any, open_ids: Any, table: Any, numbers: Any
) -> int:
    """The batches that have records of the wanted offsets; neither control records nor what was aborted.

    `aborted` has the producer id and the first offset of every aborted transaction, in the order of the latter, and
    `open_ids` room for as many. A batch that is cut short ends the list, as does one beyond the wanted offsets.
    """
    while True:
        at = numbers[AT]
        if at + HEADER > size:
            return WHOLE
        if data[at + 16] != 2:
            return OLD_FORMAT if data[at + 16] < 2 else DAMAGED
        length = read_int(data, at + 8, 4)
        if length < HEADER - OVERHEAD:
            return DAMAGED
        end = at + OVERHEAD + length
        if end > size:
            return WHOLE
        base_offset = read_int(data, at, 8)
        last_offset = base_offset + read_int(data, at + 23, 4)
        if base_offset >= until_offset:
            numbers[IS_DONE] = 1
            return WHOLE
        attributes = read_int(data, at + 21, 2)
        count = read_int(data, at + 57, 4)
        producer_id = read_int(data, at + 43, 8)
        while numbers[ABORTED_SEEN] < aborted.shape[0] and aborted[numbers[ABORTED_SEEN], 1] <= last_offset:
            open_ids[numbers[ABORTED_OPEN]] = aborted[numbers[ABORTED_SEEN], 0]
            numbers[ABORTED_OPEN] += 1
            numbers[ABORTED_SEEN] += 1
        place = -1
        if attributes & TRANSACTIONAL_BIT:
            for n in range(numbers[ABORTED_OPEN]):
                if open_ids[n] == producer_id:
                    place = n
                    break
        if attributes & CONTROL_BIT:
            if place >= 0 and _is_abort_marker(data, at + HEADER, end, count):
                numbers[ABORTED_OPEN] -= 1
                open_ids[place] = open_ids[numbers[ABORTED_OPEN]]
        elif place < 0 and last_offset >= from_offset and count != 0:
            if count < 0 or (attributes & CODEC_BITS == 0 and count * SHORTEST_RECORD > end - at - HEADER):
                return DAMAGED
            row = numbers[BATCHES]
            if row == table.shape[0]:
                return TABLE_FULL
            table[row, START], table[row, END] = at + HEADER, end
            table[row, BASE_OFFSET], table[row, RECORDS] = base_offset, count
            table[row, BASE_TIMESTAMP] = read_int(data, at + 27, 8)
            table[row, ATTRIBUTES] = attributes
            table[row, APPEND_TIME] = read_int(data, at + 35, 8)
            table[row, BATCH_START] = at
            numbers[BATCHES] += 1
        numbers[AT] = end
        numbers[NEXT_OFFSET] = max(numbers[NEXT_OFFSET], last_offset + 1)


@compiled
def _is_abort_marker(data: Any, at: int, end: int, count: int) -> bool:
    if count < 1:  # compaction has emptied it
        return False
    end, _, _, key_at, _, _, key_size, _ = read_record(data, at, end)
    return bool(end >= 0 and key_size >= 4 and read_int(data, key_at + 2, 2) == ABORT_MARKER)


@compiled
def fill_columns(
    data: Any, table: Any, batches: int, from_offset: int, until_offset: int, with_headers: bool,
    offsets: Any, timestamps: Any, types: Any,
    key_ends: Any, key_data: Any, has_key: Any, value_ends: Any, value_data: Any, has_value: Any,
    header_ends: Any, name_ends: Any, name_data: Any, content_ends: Any, content_data: Any, has_content: Any,
    fill: Any,
) -> int:  # fmt: skip
    """The records of listed batches, as Arrow has columns; -1, or the number of a batch that is damaged.

    `*_ends` begin with a zero that is already there. Columns have room for all records of the batches, and bytes for
    all that the batches have.
    """
    for batch in range(batches):
        at, end = table[batch, START], table[batch, END]
        base_offset, base_timestamp = table[batch, BASE_OFFSET], table[batch, BASE_TIMESTAMP]
        is_append_time = table[batch, ATTRIBUTES] & APPEND_TIME_BIT != 0
        for _ in range(table[batch, RECORDS]):
            at, _, _, key_at, time, delta, key_size, value_size = read_record(data, at, end)
            if at < 0:
                return batch
            offset = base_offset + delta
            if offset < from_offset:
                continue
            if offset >= until_offset:
                return -1
            row = fill[ROWS]
            if row == offsets.size:
                return batch
            _, value_at = read_varint(data, key_at + max(key_size, 0), at)
            offsets[row] = offset
            timestamps[row] = (table[batch, APPEND_TIME] if is_append_time else base_timestamp + time) * 1000
            types[row] = 1 if is_append_time else 0
            has_key[row] = key_size >= 0
            if key_size > 0:
                copy(data, key_at, key_size, key_data, fill[KEY_BYTES])
                fill[KEY_BYTES] += key_size
            key_ends[row + 1] = fill[KEY_BYTES]
            has_value[row] = value_size >= 0
            if value_size > 0:
                copy(data, value_at, value_size, value_data, fill[VALUE_BYTES])
                fill[VALUE_BYTES] += value_size
            value_ends[row + 1] = fill[VALUE_BYTES]
            if with_headers:
                sound = fill_headers(
                    data, value_at + max(value_size, 0), at, name_ends, name_data, content_ends, content_data,
                    has_content, fill,
                )  # fmt: skip
                if not sound:
                    return batch
                header_ends[row + 1] = fill[HEADERS]
            fill[ROWS] += 1
        if at != end:
            return batch
    return -1


@compiled
def fill_headers(
    data: Any, at: int, end: int, name_ends: Any, name_data: Any, content_ends: Any, content_data: Any,
    has_content: Any, fill: Any,
) -> bool:  # fmt: skip
    count, at = read_varint(data, at, end)
    if at < 0 or count < 0 or count > end - at:
        return False
    for _ in range(count):
        size, at = read_varint(data, at, end)
        if at < 0 or size < 0 or size > end - at:
            return False
        row = fill[HEADERS]
        copy(data, at, size, name_data, fill[NAME_BYTES])
        fill[NAME_BYTES] += size
        name_ends[row + 1] = fill[NAME_BYTES]
        size, at = read_varint(data, at + size, end)
        if at < 0 or size < -1 or size > end - at:
            return False
        has_content[row] = size >= 0
        if size > 0:
            copy(data, at, size, content_data, fill[HEADER_BYTES])
            fill[HEADER_BYTES] += size
            at += size
        content_ends[row + 1] = fill[HEADER_BYTES]
        fill[HEADERS] += 1
    return bool(at == end)
