"""The loops over every record, compiled by numba: keys into a map, records out of batches that later ones replace.

Imported only where cleaning is done, which is in a process of its own. Bytes are arrays of uint8. A number that is
negative where a position is expected says that the bytes are no records: nothing here reads beyond what it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

if TYPE_CHECKING:

    def compiled(function: F) -> F: ...

else:

    def compiled(function):
        try:
            return numba.njit(cache=True, nogil=True)(function)
        except RuntimeError:  # neither beside this file nor in the user's home can anything be kept for the next time
            return numba.njit(nogil=True)(function)


U: Any = np.uint64
I: Any = np.int64  # noqa: E741

HEADER: Final = 61
OVERHEAD: Final = 12
SPECIAL_BITS: Final = 0x37  # compressed, part of a transaction, or control: not for the plain loops
HORIZON_BIT: Final = 0x40
SHORTEST_RECORD: Final = 7
BLOCK: Final = 256  # keys that are looked up together

# why a loop over batches has ended
AT_END, AT_SPECIAL, DAMAGED, MAP_FULL, NO_ROOM = range(5)

# numbers that a loop over batches goes on from
AT, OUT, ROWS, LATEST, ENTRIES, WHY, MESSAGES_READ, MESSAGES_KEPT, NO_KEY = range(9)
NUMBERS: Final = 9

# what `select` finds
KEPT, TOMBSTONES, MAX_TIMESTAMP = range(3)

# how far the indexes of a segment are
SINCE_ENTRY, LARGEST, LARGEST_AT, LAST_TIME, POSITION = range(5)
INDEX_NUMBERS: Final = 5


def crc_tables() -> Any:
    """CRC-32C, eight bytes at a time."""
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        tables[0, byte] = crc
    for byte in range(256):
        crc = int(tables[0, byte])
        for row in range(1, 8):
            crc = int(tables[0, crc & 0xFF]) ^ crc >> 8
            tables[row, byte] = crc
    return tables


@compiled
def crc32c(tables: Any, data: Any, at: int, end: int) -> Any:
    crc = np.uint32(0xFFFFFFFF)
    while at + 8 <= end:
        crc ^= (
            np.uint32(data[at])
            | np.uint32(data[at + 1]) << np.uint32(8)
            | np.uint32(data[at + 2]) << np.uint32(16)
            | np.uint32(data[at + 3]) << np.uint32(24)
        )
        crc = (
            tables[7, crc & np.uint32(0xFF)]
            ^ tables[6, crc >> np.uint32(8) & np.uint32(0xFF)]
            ^ tables[5, crc >> np.uint32(16) & np.uint32(0xFF)]
            ^ tables[4, crc >> np.uint32(24)]
            ^ tables[3, data[at + 4]]
            ^ tables[2, data[at + 5]]
            ^ tables[1, data[at + 6]]
            ^ tables[0, data[at + 7]]
        )
        at += 8
    while at < end:
        crc = tables[0, (crc ^ np.uint32(data[at])) & np.uint32(0xFF)] ^ crc >> np.uint32(8)
        at += 1
    return I(crc ^ np.uint32(0xFFFFFFFF))


# -- numbers in bytes


@compiled
def read_int(data: Any, at: int, size: int) -> Any:
    """Big-endian, signed."""
    value = U(0)
    for n in range(size):
        value = value << U(8) | U(data[at + n])
    shift = U(64 - 8 * size)
    return I(value << shift) >> I(shift)


@compiled
def write_int(data: Any, at: int, size: int, value: int) -> None:
    for n in range(size):
        data[at + n] = np.uint8(value >> I(8 * (size - 1 - n)) & I(0xFF))


@compiled
def read_varint(data: Any, at: int, end: int) -> tuple[int, int]:
    """A signed number in zigzag and where it ends; -1 for the latter if it does not."""
    value, shift = U(0), U(0)
    while at < end:
        byte = U(data[at])
        at += 1
        value |= (byte & U(0x7F)) << shift
        if byte < U(0x80):
            return I(value >> U(1)) ^ -I(value & U(1)), at
        shift += U(7)
        if shift > U(63):
            break
    return I(0), I(-1)


@compiled
def varint_size(value: int) -> int:
    rest = U(value << I(1)) ^ U(value >> I(63))
    size = 1
    while rest >= U(0x80):
        rest >>= U(7)
        size += 1
    return size


@compiled
def write_varint(data: Any, at: int, value: int) -> int:
    rest = U(value << I(1)) ^ U(value >> I(63))
    while rest >= U(0x80):
        data[at] = np.uint8(rest & U(0x7F) | U(0x80))
        rest >>= U(7)
        at += 1
    data[at] = np.uint8(rest)
    return at + 1


@compiled
def copy(source: Any, at: int, size: int, target: Any, to: int) -> None:
    target[to : to + size] = source[at : at + size]


# -- the map of keys: three words a slot, the two of a key's hash and its newest offset plus one; zero is free


@compiled
def _rotated(value: Any, by: int) -> Any:
    return value << U(by) | value >> U(64 - by)


@compiled
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 += v1
    v1 = _rotated(v1, 13) ^ v0
    v0 = _rotated(v0, 32)
    v2 += v3
    v3 = _rotated(v3, 16) ^ v2
    v0 += v3
    v3 = _rotated(v3, 21) ^ v0
    v2 += v1
    v1 = _rotated(v1, 17) ^ v2
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@compiled
def siphash(data: Any, at: int, size: int, secret: Any) -> Any:
    """SipHash-1-3 with 128 bits: who does not know the secret cannot make two keys of the same hash."""
    v0 = secret[0] ^ U(0x736F6D6570736575)
    v1 = secret[1] ^ U(0x646F72616E646F6D) ^ U(0xEE)
    v2 = secret[0] ^ U(0x6C7967656E657261)
    v3 = secret[1] ^ U(0x7465646279746573)
    end = at + (size & ~7)
    while at < end:
        word = (
            U(data[at])
            | U(data[at + 1]) << U(8)
            | U(data[at + 2]) << U(16)
            | U(data[at + 3]) << U(24)
            | U(data[at + 4]) << U(32)
            | U(data[at + 5]) << U(40)
            | U(data[at + 6]) << U(48)
            | U(data[at + 7]) << U(56)
        )
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = U(size) << U(56)
    for n in range(size & 7):
        word |= U(data[at + n]) << U(8 * n)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= U(0xEE)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= U(0xDD)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@compiled
def _slot(table: Any, first: Any, second: Any) -> Any:
    """Where a key is, or would be. There is always a free slot."""
    place = I((first >> U(32)) * U(table.size // 3) >> U(32)) * 3
    while table[place + 2] != U(0) and (table[place] != first or table[place + 1] != second):
        place += 3
        if place >= table.size:
            place = 0
    return place


# -- records


@compiled
def read_record(data: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int]:
    """Where it ends (-1 if it is none), where its time, its offset and its key stand, the first two as numbers,
    the sizes of key and value (-1 for null)."""
    size, at = read_varint(data, at, end)
    if at < 0 or size < SHORTEST_RECORD - 1 or size > end - at:
        return I(-1), 0, 0, 0, 0, 0, 0, 0
    end = at + size
    time_at = at + 1  # after the attributes
    time, offset_at = read_varint(data, time_at, end)
    if offset_at < 0:
        return I(-1), 0, 0, 0, 0, 0, 0, 0
    offset, at = read_varint(data, offset_at, end)
    if at < 0:
        return I(-1), 0, 0, 0, 0, 0, 0, 0
    key_size, key_at = read_varint(data, at, end)
    if key_at < 0 or key_size < -1 or key_size > end - key_at:
        return I(-1), 0, 0, 0, 0, 0, 0, 0
    value_size, at = read_varint(data, key_at + max(key_size, 0), end)
    if at < 0 or value_size < -1 or value_size > end - at:
        return I(-1), 0, 0, 0, 0, 0, 0, 0
    return end, time_at, offset_at, key_at, time, offset, key_size, value_size


@compiled
def map_records(
    data: Any, at: int, end: int, count: int, base_offset: int, from_offset: int, table: Any, secret: Any,
    most: int, hashes: Any, offsets: Any, numbers: Any,
) -> int:  # fmt: skip
    """Enters the keys of a batch's records; why it ended.

    In blocks, hashes first: the memory of the map is slow, and several keys can be waited for at once.
    """
    left = count
    while left > 0:
        block = min(left, offsets.size)
        keys = 0
        for _ in range(block):
            at, _, _, key_at, _, delta, key_size, _ = read_record(data, at, end)
            if at < 0:
                return DAMAGED
            if key_size >= 0 and base_offset + delta >= from_offset:
                hashes[keys, 0], hashes[keys, 1] = siphash(data, key_at, key_size, secret)
                offsets[keys] = base_offset + delta
                keys += 1
        for n in range(keys):
            if numbers[ENTRIES] >= most:
                return MAP_FULL
            first, second = hashes[n, 0], hashes[n, 1]
            place = _slot(table, first, second)
            if table[place + 2] == U(0):
                table[place], table[place + 1] = first, second
                numbers[ENTRIES] += 1
            table[place + 2] = U(offsets[n] + 1)
        numbers[MESSAGES_READ] += block
        left -= block
    return AT_END if at == end else DAMAGED


@compiled
def map_batches(
    data: Any, size: int, from_offset: int, table: Any, secret: Any, most: int, hashes: Any, offsets: Any, tables: Any,
    numbers: Any,
) -> None:  # fmt: skip
    """Enters the keys of plain batches, one after the other."""
    while True:
        at = numbers[AT]
        if at + HEADER > size:
            numbers[WHY] = AT_END
            return
        length = read_int(data, at + 8, 4)
        end = at + OVERHEAD + length
        if length < HEADER - OVERHEAD or data[at + 16] != 2:
            numbers[WHY] = DAMAGED
            return
        if end > size:
            numbers[WHY] = AT_END
            return
        if read_int(data, at + 21, 2) & SPECIAL_BITS:
            numbers[WHY] = AT_SPECIAL
            return
        if crc32c(tables, data, at + 21, end) != read_int(data, at + 17, 4) & 0xFFFFFFFF:
            numbers[WHY] = DAMAGED
            return
        base_offset = read_int(data, at, 8)
        last_offset = base_offset + read_int(data, at + 23, 4)
        if last_offset >= from_offset:
            count = read_int(data, at + 57, 4)
            why = map_records(
                data, at + HEADER, end, count, base_offset, from_offset, table, secret, most, hashes, offsets, numbers
            )
            if why != AT_END:
                numbers[WHY] = why
                return
            numbers[LATEST] = max(numbers[LATEST], last_offset)
        numbers[AT] = end


@compiled
def select(
    data: Any, at: int, end: int, count: int, base_offset: int, base_timestamp: int, latest: int,
    drops_tombstones: bool, table: Any, secret: Any, hashes: Any, offsets: Any, starts: Any, kept: Any,
    found: Any, numbers: Any,
) -> bool:  # fmt: skip
    """Which records of a batch stay; `starts` gets where each begins and the last ends. False if it is damaged."""
    found[KEPT] = found[TOMBSTONES] = 0
    found[MAX_TIMESTAMP] = -1
    if count < 0 or count >= starts.size:
        return False
    done = 0
    while done < count:
        block = min(count - done, offsets.size)
        for n in range(block):
            starts[done + n] = at
            at, _, _, key_at, _, delta, key_size, value_size = read_record(data, at, end)
            if at < 0:
                return False
            offset = base_offset + delta
            kept[done + n] = offset > latest or (key_size >= 0 and (value_size >= 0 or not drops_tombstones))
            offsets[n] = offset
            if offset <= latest:
                if key_size < 0:
                    numbers[NO_KEY] += 1
                else:
                    hashes[n, 0], hashes[n, 1] = siphash(data, key_at, key_size, secret)
        for n in range(block):
            if kept[done + n] and offsets[n] <= latest:
                kept[done + n] = U(offsets[n] + 1) >= table[_slot(table, hashes[n, 0], hashes[n, 1]) + 2]
        done += block
    starts[count] = at
    for n in range(count):
        if kept[n]:
            _, _, _, _, time, _, _, value_size = read_record(data, starts[n], starts[n + 1])
            found[KEPT] += 1
            found[MAX_TIMESTAMP] = max(found[MAX_TIMESTAMP], base_timestamp + time)
            if value_size < 0:
                found[TOMBSTONES] = 1
    numbers[MESSAGES_READ] += count
    numbers[MESSAGES_KEPT] += found[KEPT]
    return at == end


@compiled
def copy_kept(data: Any, count: int, starts: Any, kept: Any, target: Any, to: int) -> int:
    """The records that stay, as they are; gives where they end."""
    n = 0
    while n < count:
        if not kept[n]:
            n += 1
            continue
        first = starts[n]
        while n < count and kept[n]:
            n += 1
        copy(data, first, starts[n] - first, target, to)
        to += starts[n] - first
    return to


@compiled
def copy_with_times(data: Any, count: int, starts: Any, kept: Any, later: int, target: Any, to: int) -> int:
    """The records that stay, for a batch whose base time is later by so much; gives where they end."""
    for n in range(count):
        if not kept[n]:
            continue
        end, time_at, offset_at, _, time, _, _, _ = read_record(data, starts[n], starts[n + 1])
        rest = end - offset_at
        size = 1 + varint_size(time - later) + rest
        to = write_varint(target, to, size)
        target[to] = data[time_at - 1]
        to = write_varint(target, to + 1, time - later)
        copy(data, offset_at, rest, target, to)
        to += rest
    return to


# -- batches


@compiled
def _is_last_of_producer(producer_id: int, last_offset: int, last_offsets: Any, producer_ids: Any) -> bool:
    place = np.searchsorted(last_offsets, last_offset)
    return bool(place < last_offsets.size and last_offsets[place] == last_offset and producer_ids[place] == producer_id)


@compiled
def write_empty(data: Any, at: int, target: Any, to: int) -> None:
    """The header of a batch that has no records any more: its offsets, its producer and its sequences stay."""
    copy(data, at, HEADER, target, to)
    write_int(target, to + 8, 4, HEADER - OVERHEAD)
    write_int(target, to + 21, 2, read_int(data, at + 21, 2) & 0x38)
    write_int(target, to + 27, 8, -1)
    write_int(target, to + 57, 4, 0)


@compiled
def seal(tables: Any, target: Any, start: int, end: int) -> None:
    write_int(target, start + 8, 4, end - start - OVERHEAD)
    write_int(target, start + 17, 4, crc32c(tables, target, start + 21, end))


@compiled
def filter_batches(
    data: Any, size: int, verify: bool, table: Any, secret: Any, tables: Any, now: int, horizon: int, bound: int,
    last_offsets: Any, producer_ids: Any, hashes: Any, offsets: Any, starts: Any, kept: Any, found: Any, target: Any,
    rows: Any, numbers: Any,
) -> None:  # fmt: skip
    """Plain batches without the records that others replace; `rows` gets size, last offset and largest time of each.

    `bound` is where the cleaning ends: the batch before it stays, even empty, so that the log's offsets do not go back.
    """
    while True:
        at, to = numbers[AT], numbers[OUT]
        if at + HEADER > size:
            numbers[WHY] = AT_END
            return
        length = read_int(data, at + 8, 4)
        end = at + OVERHEAD + length
        if length < HEADER - OVERHEAD or data[at + 16] != 2:
            numbers[WHY] = DAMAGED
            return
        if end > size:
            numbers[WHY] = AT_END
            return
        attributes = read_int(data, at + 21, 2)
        if attributes & SPECIAL_BITS:
            numbers[WHY] = AT_SPECIAL
            return
        if to + 3 * (end - at) > target.size or numbers[ROWS] >= rows.shape[0]:
            numbers[WHY] = NO_ROOM
            return
        if verify and crc32c(tables, data, at + 21, end) != read_int(data, at + 17, 4) & 0xFFFFFFFF:
            numbers[WHY] = DAMAGED
            return
        base_offset = read_int(data, at, 8)
        last_offset = base_offset + read_int(data, at + 23, 4)
        base_timestamp = read_int(data, at + 27, 8)
        max_timestamp = read_int(data, at + 35, 8)
        count = read_int(data, at + 57, 4)
        has_horizon = attributes & HORIZON_BIT != 0
        sound = select(
            data, at + HEADER, end, count, base_offset, base_timestamp, numbers[LATEST],
            has_horizon and base_timestamp <= now, table, secret, hashes, offsets, starts, kept, found, numbers,
        )  # fmt: skip
        if not sound:
            numbers[WHY] = DAMAGED
            return
        needs_horizon = found[TOMBSTONES] != 0 and not has_horizon
        done = to
        if found[KEPT] == 0:
            producer_id = read_int(data, at + 43, 8)
            if last_offset + 1 == bound or (
                producer_id >= 0 and _is_last_of_producer(producer_id, last_offset, last_offsets, producer_ids)
            ):
                write_empty(data, at, target, to)
                done = to + HEADER
                seal(tables, target, to, done)
        elif found[KEPT] == count and not needs_horizon:
            copy(data, at, end - at, target, to)
            done = to + end - at
        else:
            done = rebuild(
                data, at, data, count, starts, kept, found, base_timestamp, horizon if needs_horizon else -1, target, to
            )
            seal(tables, target, to, done)
            if attributes & 0x08 == 0:
                max_timestamp = found[MAX_TIMESTAMP]
        if done > to:
            row = numbers[ROWS]
            rows[row, 0], rows[row, 1], rows[row, 2] = done - to, last_offset, max_timestamp
            numbers[ROWS] += 1
        numbers[AT], numbers[OUT] = end, done


@compiled
def rebuild(
    head: Any, at: int, records: Any, count: int, starts: Any, kept: Any, found: Any, base_timestamp: int, horizon: int,
    target: Any, to: int,
) -> int:  # fmt: skip
    """A batch of the records that stay, with its old head but for what they change; gives where it ends.

    A horizon (not -1) takes the place of the base time, and the records' times are told from there.
    """
    copy(head, at, HEADER, target, to)
    attributes = read_int(head, at + 21, 2)
    if attributes & 0x08 == 0:
        write_int(target, to + 35, 8, found[MAX_TIMESTAMP])
    write_int(target, to + 57, 4, found[KEPT])
    if horizon < 0:
        return copy_kept(records, count, starts, kept, target, to + HEADER)
    write_int(target, to + 21, 2, attributes | HORIZON_BIT)
    write_int(target, to + 27, 8, horizon)
    return copy_with_times(records, count, starts, kept, horizon - base_timestamp, target, to + HEADER)


# -- the indexes of what was written


@compiled
def index_rows(
    rows: Any, count: int, base_offset: int, interval: int, index: Any, offsets: Any, times: Any
) -> tuple[int, int]:  # fmt: skip
    """Entries for batches that were appended, as `Segment.note` makes them; gives how many of each."""
    made, timed = 0, 0
    for row in range(count):
        size, last_offset, max_timestamp = rows[row, 0], rows[row, 1], rows[row, 2]
        if max_timestamp > index[LARGEST]:
            index[LARGEST], index[LARGEST_AT] = max_timestamp, last_offset
        if index[SINCE_ENTRY] > interval:
            offsets[made, 0], offsets[made, 1] = last_offset - base_offset, index[POSITION]
            made += 1
            if index[LARGEST] > index[LAST_TIME]:
                times[timed, 0], times[timed, 1] = index[LARGEST], index[LARGEST_AT] - base_offset
                index[LAST_TIME] = index[LARGEST]
                timed += 1
            index[SINCE_ENTRY] = 0
        index[SINCE_ENTRY] += size
        index[POSITION] += size
    return made, timed
