"""The loops over every record, compiled by numba: keys into a map, records out of batches that later ones replace.

All in one file, since numba's cache notices changes of the file that a loop stands in, and not of others.

Imported only where cleaning is done, which is in a process of its own. Bytes are arrays of uint8. A number that is
negative where a position is expected says that the bytes are no records: nothing here reads beyond what it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import llvmlite.binding
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils

F = TypeVar("F", bound=Callable[..., Any])

is_kept = True
"""Whether what is compiled here is found by the next process."""

if TYPE_CHECKING:

    def compiled(function: F) -> F: ...
    def inlined(function: F) -> F: ...
    def intrinsic(function: F) -> Any: ...

else:
    from numba.extending import intrinsic

    def _made(function, **how):
        global is_kept
        try:
            return numba.njit(cache=True, nogil=True, **how)(function)
        except RuntimeError:  # neither beside this file nor in the user's home can anything be kept for the next time
            is_kept = False
            return numba.njit(nogil=True, **how)(function)

    def compiled(function):
        return _made(function)

    def inlined(function):
        """For what is done for every record: a call takes longer than that."""
        return _made(function, forceinline=True)


U: Any = np.uint64
I: Any = np.int64  # noqa: E741

HEADER: Final = 61
OVERHEAD: Final = 12
SPECIAL_BITS: Final = 0x37  # compressed, part of a transaction, or control: not for the plain loops
HORIZON_BIT: Final = 0x40
APPEND_TIME_BIT: Final = 0x08
SHORTEST_RECORD: Final = 7
BLOCK: Final = 256  # keys that are looked up together
WORD: Final = 8

# why a loop over batches has ended
AT_BATCH, AT_END, AT_SPECIAL, DAMAGED, MAP_FULL, NO_ROOM = range(6)

# numbers that a loop over batches goes on from
AT, OUT, ROWS, LATEST, ENTRIES, WHY, MESSAGES_READ, MESSAGES_KEPT, NO_KEY = range(9)
NUMBERS: Final = 9

# what `select` finds
KEPT, TOMBSTONES, MAX_TIMESTAMP = range(3)
FOUND: Final = 3

# how far the indexes of a segment are
SINCE_ENTRY, LARGEST, LARGEST_AT, LAST_TIME, POSITION = range(5)
INDEX_NUMBERS: Final = 5


class Keys(NamedTuple):
    """The map of keys: three words a slot, the two of a key's hash and its newest offset plus one; zero is free."""

    table: Any
    secret: Any
    most: int
    """Keys that there may be: a slot is always free."""
    first: int
    """The keys of records from this offset on are in the map."""
    marks: Any
    """A bit for each of the first offsets: set when a later record of the same key was met, or if there is no key."""
    hashes: Any
    offsets: Any


class Scratch(NamedTuple):
    """For the records of one batch."""

    starts: Any
    """Where each begins, and the last ends."""
    kept: Any
    found: Any


class Producers(NamedTuple):
    """The last batch of each active producer, in the order of offsets."""

    last_offsets: Any
    ids: Any


# -- what numba has no words for


def _pointer(context: Any, builder: Any, signature: Any, args: Any, kind: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.bitcast(builder.gep(array.data, [args[1]]), kind.as_pointer())


@intrinsic
def word_at(_: Any, data: Any, at: Any) -> Any:
    """Eight bytes as they lie, the first one lowest. They must be there."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, signature, args, ir.IntType(64)), align=1)

    return numba.uint64(data, numba.int64), generate


@intrinsic
def fetch_ahead(_: Any, array: Any, at: Any) -> Any:
    """Has the processor fetch what will be written to in a moment."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, number = ir.IntType(8), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [address.as_pointer(), number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.as_pointer()], kind)
        builder.call(function, [_pointer(context, builder, signature, args, address), *map(number, (1, 3, 1))])
        return context.get_dummy_value()

    return numba.void(array, numba.int64), generate


@intrinsic
def crc32c_step(_: Any, crc: Any, word: Any) -> Any:
    """The instruction that x86 has for it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        long = ir.IntType(64)
        kind = ir.FunctionType(long, [long, long])
        function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), kind)
        return builder.call(function, args)

    return numba.uint64(numba.uint64, numba.uint64), generate


# -- checksums


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


TABLES: Final = crc_tables()


@inlined
def _crc_of_bytes(crc: Any, data: Any, at: int, end: int) -> Any:
    while at < end:
        crc = TABLES[0, (crc ^ np.uint32(data[at])) & np.uint32(0xFF)] ^ crc >> np.uint32(8)
        at += 1
    return I(crc ^ np.uint32(0xFFFFFFFF))


@compiled
def crc32c_by_tables(data: Any, at: int, end: int) -> Any:
    crc = np.uint32(0xFFFFFFFF)
    while at + WORD <= end:
        word = word_at(data, at) ^ U(crc)
        crc = TABLES[7, word & U(0xFF)]
        for n in range(1, 8):
            crc ^= TABLES[7 - n, word >> U(8 * n) & U(0xFF)]
        at += WORD
    return _crc_of_bytes(crc, data, at, end)


@compiled
def crc32c_by_processor(data: Any, at: int, end: int) -> Any:
    crc = U(0xFFFFFFFF)
    while at + WORD <= end:
        crc = crc32c_step(crc, word_at(data, at))
        at += WORD
    return _crc_of_bytes(np.uint32(crc), data, at, end)


HAS_CRC: Final = bool(llvmlite.binding.get_host_cpu_features().get("sse4.2"))
crc32c = crc32c_by_processor if HAS_CRC else crc32c_by_tables


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


@inlined
def _read_short_varint(data: Any, at: int) -> tuple[int, int]:
    """One of up to three bytes, where eight can be read; -1 for its end if it is longer."""
    word = word_at(data, at)
    if word & U(0x80) == U(0):
        value, end = word & U(0x7F), at + 1
    elif word & U(0x8000) == U(0):
        value, end = word & U(0x7F) | word >> U(1) & U(0x3F80), at + 2
    elif word & U(0x800000) == U(0):
        value, end = word & U(0x7F) | word >> U(1) & U(0x3F80) | word >> U(2) & U(0x1FC000), at + 3
    else:
        value, end = U(0), I(-1)
    return I(value >> U(1)) ^ -I(value & U(1)), end


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


@intrinsic
def copy(_: Any, source: Any, at: Any, size: Any, target: Any, to: Any) -> Any:
    """Bytes from one array to another. An assignment of slices would take three seconds to compile, for its errors."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8)
        here = _pointer(context, builder, signature, args, byte)
        array = context.make_array(signature.args[3])(context, builder, args[3])
        there = builder.bitcast(builder.gep(array.data, [args[4]]), byte.as_pointer())
        cgutils.raw_memmove(builder, there, here, args[2], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return numba.void(source, numba.int64, numba.int64, target, numba.int64), generate


# -- the map of keys


@inlined
def _rotated(value: Any, by: int) -> Any:
    return value << U(by) | value >> U(64 - by)


@inlined
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


@inlined
def siphash(data: Any, at: int, size: int, secret: Any) -> Any:
    """SipHash-1-3 with 128 bits: who does not know the secret cannot make two keys of the same hash."""
    v0 = secret[0] ^ U(0x736F6D6570736575)
    v1 = secret[1] ^ U(0x646F72616E646F6D) ^ U(0xEE)
    v2 = secret[0] ^ U(0x6C7967656E657261)
    v3 = secret[1] ^ U(0x7465646279746573)
    end = at + (size & ~7)
    while at < end:
        word = word_at(data, at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += WORD
    word = U(size) << U(56) | _last_bytes(data, at, size & 7)
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


@inlined
def _last_bytes(data: Any, at: int, count: int) -> Any:
    if at + WORD <= data.size:
        return word_at(data, at) & (U(1) << U(8 * count)) - U(1)
    word = U(0)
    for n in range(count):
        word |= U(data[at + n]) << U(8 * n)
    return word


@inlined
def _home(table: Any, first: Any) -> Any:
    """The slot where the search for a key begins."""
    return I((first >> U(32)) * U(table.size // 3) >> U(32)) * 3


@inlined
def _slot(table: Any, first: Any, second: Any) -> Any:
    """Where a key is, or would be. There is always a free slot."""
    place = _home(table, first)
    while table[place + 2] != U(0) and (table[place] != first or table[place + 1] != second):
        place += 3
        if place >= table.size:
            place = 0
    return place


@inlined
def _note_key(keys: Keys, n: int, data: Any, key_at: int, key_size: int) -> None:
    """The hash of a key, as the n-th of a block. It is looked up after the others: memory is slow, and waits for
    several at once."""
    keys.hashes[n, 0], keys.hashes[n, 1] = siphash(data, key_at, key_size, keys.secret)
    fetch_ahead(keys.table, _home(keys.table, keys.hashes[n, 0]))


@inlined
def _mark(keys: Keys, offset: int) -> None:
    bit = offset - keys.first
    if 0 <= bit < 64 * keys.marks.size:
        keys.marks[bit >> 6] |= U(1) << U(bit & 63)


@inlined
def _is_marked(keys: Keys, offset: int) -> bool:
    bit = offset - keys.first
    return bool(keys.marks[bit >> 6] >> U(bit & 63) & U(1))


@compiled
def are_all_replaced(keys: Keys, base_offset: int, last_offset: int, latest: int) -> bool:
    """Whether nothing of a batch stays. False if that is not known without looking at its records."""
    bit, end = base_offset - keys.first, last_offset - keys.first + 1
    if not 0 <= bit < end <= 64 * keys.marks.size or last_offset > latest:
        return False
    while bit < end:
        count = min(64 - (bit & 63), end - bit)
        wanted = ~U(0) >> U(64 - count)
        if keys.marks[bit >> 6] >> U(bit & 63) & wanted != wanted:
            return False
        bit += count
    return True


# -- records


@compiled
def _read_any_record(data: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int]:
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


@inlined
def read_record(data: Any, at: int, end: int) -> tuple[int, int, int, int, int, int, int, int]:
    """Where it ends (-1 if it is none), where its time, its offset and its key stand, the first two as numbers,
    the sizes of key and value (-1 for null).

    Nearly every record is of short numbers, which are read four times as fast if nothing else is provided for;
    whichever is not, or not sound, or at the very end of the data, is read with care.
    """
    last = data.size - WORD
    if at <= last:
        size, time_at = _read_short_varint(data, at)
        record_end = time_at + size
        time_at += 1  # after the attributes
        if 0 < time_at <= last and size >= SHORTEST_RECORD - 1 and record_end <= end:
            time, offset_at = _read_short_varint(data, time_at)
            if 0 < offset_at <= last:
                offset, key_size_at = _read_short_varint(data, offset_at)
                if 0 < key_size_at <= last:
                    key_size, key_at = _read_short_varint(data, key_size_at)
                    value_size_at = key_at + max(key_size, 0)
                    if key_at > 0 and key_size >= -1 and value_size_at <= last:
                        value_size, value_at = _read_short_varint(data, value_size_at)
                        if value_at > 0 and value_size >= -1 and value_at + max(value_size, 0) <= record_end:
                            return record_end, time_at, offset_at, key_at, time, offset, key_size, value_size
    return _read_any_record(data, at, end)


@compiled
def map_records(data: Any, at: int, end: int, count: int, base_offset: int, keys: Keys, numbers: Any) -> int:
    """Enters the keys of a batch's records; why it ended."""
    left, keyless = count, 0
    while left > 0:
        block = min(left, keys.offsets.size)
        found = 0
        for _ in range(block):
            at, _, _, key_at, _, delta, key_size, _ = read_record(data, at, end)
            if at < 0:
                return DAMAGED
            offset = base_offset + delta
            if offset < keys.first:
                continue
            if key_size < 0:
                keyless += 1
                _mark(keys, offset)
                continue
            _note_key(keys, found, data, key_at, key_size)
            keys.offsets[found] = offset
            found += 1
        looked_up = 0
        while looked_up < found and numbers[ENTRIES] < keys.most:
            n = looked_up
            first, second, table = keys.hashes[n, 0], keys.hashes[n, 1], keys.table
            place = _slot(table, first, second)
            earlier = I(table[place + 2]) - 1
            if earlier < 0:
                table[place], table[place + 1] = first, second
                numbers[ENTRIES] += 1
            table[place + 2] = U(keys.offsets[n] + 1)
            keys.offsets[n] = earlier
            looked_up += 1
        for n in range(looked_up):
            if keys.offsets[n] >= 0:
                _mark(keys, keys.offsets[n])
        if looked_up < found:
            return MAP_FULL
        left -= block
    numbers[NO_KEY] += keyless
    return AT_END if at == end and left == 0 else DAMAGED


@compiled
def _look_at_batch(data: Any, size: int, verify: bool, numbers: Any) -> Any:
    """Where the plain batch ends that is the next one; `numbers[WHY]` says whether there is one."""
    at = numbers[AT]
    if at + HEADER > size:
        numbers[WHY] = AT_END
        return at
    length = read_int(data, at + 8, 4)
    end = at + OVERHEAD + length
    if length < HEADER - OVERHEAD or data[at + 16] != 2:
        numbers[WHY] = DAMAGED
    elif end > size:
        numbers[WHY] = AT_END
    elif read_int(data, at + 21, 2) & SPECIAL_BITS:
        numbers[WHY] = AT_SPECIAL
    elif verify and crc32c(data, at + 21, end) != read_int(data, at + 17, 4) & 0xFFFFFFFF:
        numbers[WHY] = DAMAGED
    else:
        numbers[WHY] = AT_BATCH
    return end


@compiled
def map_batches(data: Any, size: int, keys: Keys, numbers: Any) -> None:
    """Enters the keys of plain batches, one after the other."""
    while True:
        end = _look_at_batch(data, size, True, numbers)
        if numbers[WHY] != AT_BATCH:
            return
        at = numbers[AT]
        base_offset = read_int(data, at, 8)
        last_offset = base_offset + read_int(data, at + 23, 4)
        if last_offset >= keys.first:
            why = map_records(data, at + HEADER, end, read_int(data, at + 57, 4), base_offset, keys, numbers)
            if why != AT_END:
                numbers[WHY] = why
                return
            numbers[LATEST] = max(numbers[LATEST], last_offset)
        numbers[AT] = end


@compiled
def select(
    data: Any, at: int, end: int, count: int, base_offset: int, base_timestamp: int, latest: int,
    drops_tombstones: bool, keys: Keys, scratch: Scratch, numbers: Any,
) -> bool:  # fmt: skip
    """Which records of a batch stay. False if it is damaged."""
    starts, kept, found, offsets = scratch.starts, scratch.kept, scratch.found, keys.offsets
    found[KEPT] = found[TOMBSTONES] = 0
    found[MAX_TIMESTAMP] = -1
    if count < 0 or count >= starts.size:
        return False
    marked = keys.first + 64 * keys.marks.size
    done = 0
    while done < count:
        block = min(count - done, offsets.size)
        for n in range(block):
            starts[done + n] = at
            at, _, _, key_at, _, delta, key_size, value_size = read_record(data, at, end)
            if at < 0:
                return False
            offset = base_offset + delta
            offsets[n] = -1
            if offset > latest:
                kept[done + n] = True
            elif key_size < 0 or (value_size < 0 and drops_tombstones):
                kept[done + n] = False
                numbers[NO_KEY] += key_size < 0 and offset < keys.first
            elif keys.first <= offset < marked:
                kept[done + n] = not _is_marked(keys, offset)
            else:
                offsets[n] = offset
                _note_key(keys, n, data, key_at, key_size)
        for n in range(block):
            if offsets[n] >= 0:
                place = _slot(keys.table, keys.hashes[n, 0], keys.hashes[n, 1])
                kept[done + n] = U(offsets[n] + 1) >= keys.table[place + 2]
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


@inlined
def _is_last_of_producer(producers: Producers, producer_id: int, last_offset: int) -> bool:
    place, end = 0, producers.ids.size  # np.searchsorted takes half a second to compile
    while place < end:
        middle = (place + end) // 2
        if producers.last_offsets[middle] < last_offset:
            place = middle + 1
        else:
            end = middle
    return bool(
        place < producers.ids.size
        and producers.last_offsets[place] == last_offset
        and producers.ids[place] == producer_id
    )


@compiled
def write_empty(data: Any, at: int, target: Any, to: int) -> None:
    """The header of a batch that has no records any more: its offsets, its producer and its sequences stay."""
    copy(data, at, HEADER, target, to)
    write_int(target, to + 8, 4, HEADER - OVERHEAD)
    write_int(target, to + 21, 2, read_int(data, at + 21, 2) & 0x38)
    write_int(target, to + 27, 8, -1)
    write_int(target, to + 57, 4, 0)


@compiled
def seal(target: Any, start: int, end: int) -> None:
    write_int(target, start + 8, 4, end - start - OVERHEAD)
    write_int(target, start + 17, 4, crc32c(target, start + 21, end))


@compiled
def filter_batches(
    data: Any, size: int, verify: bool, keys: Keys, now: int, horizon: int, bound: int, producers: Producers,
    scratch: Scratch, target: Any, rows: Any, numbers: Any,
) -> None:  # fmt: skip
    """Plain batches without the records that others replace; `rows` gets size, last offset and largest time of each.

    `bound` is where the cleaning ends: the batch before it stays, even empty, so that the log's offsets do not go back.
    """
    found = scratch.found
    while True:
        end = _look_at_batch(data, size, verify, numbers)
        if numbers[WHY] != AT_BATCH:
            return
        at, to = numbers[AT], numbers[OUT]
        if to + 3 * (end - at) > target.size or numbers[ROWS] >= rows.shape[0]:
            numbers[WHY] = NO_ROOM
            return
        base_offset = read_int(data, at, 8)
        last_offset = base_offset + read_int(data, at + 23, 4)
        count = read_int(data, at + 57, 4)
        attributes = read_int(data, at + 21, 2)
        base_timestamp, max_timestamp = read_int(data, at + 27, 8), read_int(data, at + 35, 8)
        has_horizon = attributes & HORIZON_BIT != 0
        if are_all_replaced(keys, base_offset, last_offset, numbers[LATEST]):
            found[KEPT] = found[TOMBSTONES] = 0
            numbers[MESSAGES_READ] += count
        elif not select(
            data, at + HEADER, end, count, base_offset, base_timestamp, numbers[LATEST],
            has_horizon and base_timestamp <= now, keys, scratch, numbers,
        ):  # fmt: skip
            numbers[WHY] = DAMAGED
            return
        needs_horizon = found[TOMBSTONES] != 0 and not has_horizon and horizon >= 0
        done = to
        if found[KEPT] == 0:
            producer_id = read_int(data, at + 43, 8)
            if last_offset + 1 == bound or (
                producer_id >= 0 and _is_last_of_producer(producers, producer_id, last_offset)
            ):
                write_empty(data, at, target, to)
                done = to + HEADER
                seal(target, to, done)
        elif found[KEPT] == count and not needs_horizon:
            copy(data, at, end - at, target, to)
            done = to + end - at
        else:
            done = rebuild(data, at, data, count, scratch, base_timestamp, horizon if needs_horizon else -1, target, to)
            seal(target, to, done)
            if attributes & APPEND_TIME_BIT == 0:
                max_timestamp = found[MAX_TIMESTAMP]
        if done > to:
            row = numbers[ROWS]
            rows[row, 0], rows[row, 1], rows[row, 2] = done - to, last_offset, max_timestamp
            numbers[ROWS] += 1
        numbers[AT], numbers[OUT] = end, done


@compiled
def rebuild(
    head: Any, at: int, records: Any, count: int, scratch: Scratch, base_timestamp: int, horizon: int, target: Any,
    to: int,
) -> int:  # fmt: skip
    """A batch of the records that stay, with its old head but for what they change; gives where it ends.

    A horizon (not -1) takes the place of the base time, and the records' times are told from there.
    """
    starts, kept, found = scratch.starts, scratch.kept, scratch.found
    copy(head, at, HEADER, target, to)
    attributes = read_int(head, at + 21, 2)
    if attributes & APPEND_TIME_BIT == 0:
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
