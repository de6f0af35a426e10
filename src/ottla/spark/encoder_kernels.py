"""The loops over every record that is written, compiled by numba: Arrow columns into record batches.

See `kernels.py` for the other way, and for what to know about numba's cache.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ottla.log.cleaning.kernels import I, compiled, copy, varint_size, write_varint

U32: Any = np.uint32
_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


@compiled
def murmur2(data: Any, at: int, size: int) -> int:
    """The hash by which the Java clients place keys; not negative, as they take it."""
    m = U32(_M)
    h = U32(_SEED) ^ U32(size)
    end = at + (size & ~3)
    while at < end:
        k = (
            U32(data[at])
            | U32(data[at + 1]) << U32(8)
            | U32(data[at + 2]) << U32(16)
            | U32(data[at + 3]) << U32(24)
        )  # fmt: skip
        k = U32(k * m)
        k ^= k >> U32(24)
        k = U32(k * m)
        h = U32(h * m)
        h ^= k
        at += 4
    rest = size & 3
    if rest == 3:
        h ^= U32(data[at + 2]) << U32(16)
    if rest >= 2:
        h ^= U32(data[at + 1]) << U32(8)
    if rest >= 1:
        h ^= U32(data[at])
        h = U32(h * m)
    h ^= h >> U32(13)
    h = U32(h * m)
    h ^= h >> U32(15)
    return I(h & U32(0x7FFFFFFF))  # type: ignore[no-any-return]


@compiled
def place_by_key(ends: Any, data: Any, there: Any, partitions: int, without_key: int, places: Any) -> None:
    """The partition of each row that has none yet (-1): by its key, or `without_key`."""
    for row in range(places.size):
        if places[row] < 0:
            if there[row]:
                places[row] = murmur2(data, ends[row], ends[row + 1] - ends[row]) % partitions
            else:
                places[row] = without_key


@compiled
def write_records(
    rows: Any, first: int, limit: int, target: Any,
    key_ends: Any, key_data: Any, has_key: Any, value_ends: Any, value_data: Any, has_value: Any,
    header_ends: Any, name_ends: Any, name_data: Any, content_ends: Any, content_data: Any, has_content: Any,
) -> tuple[int, int]:  # fmt: skip
    """Records of rows, from the `first` of them on, into a batch of `limit` bytes or one record.

    Gives which row is next, and how many bytes there are; no bytes if not even one record fits into the target.
    """
    to, n = 0, first
    with_headers = header_ends.size > 1
    while n < rows.size:
        row = rows[n]
        key = key_ends[row + 1] - key_ends[row] if has_key[row] else I(-1)
        value = value_ends[row + 1] - value_ends[row] if has_value[row] else I(-1)
        size = 2 + varint_size(n - first) + varint_size(key) + max(key, 0) + varint_size(value) + max(value, 0)
        begin, end = (header_ends[row], header_ends[row + 1]) if with_headers else (0, 0)
        size += varint_size(end - begin)
        for header in range(begin, end):
            name = name_ends[header + 1] - name_ends[header]
            content = content_ends[header + 1] - content_ends[header] if has_content[header] else I(-1)
            size += varint_size(name) + name + varint_size(content) + max(content, 0)
        whole = varint_size(size) + size
        if to + whole > (limit if n > first else target.size):
            break
        to = write_varint(target, to, size)
        target[to] = 0  # attributes
        target[to + 1] = 0  # as late as the batch
        to = write_varint(target, to + 2, n - first)
        to = write_varint(target, to, key)
        if key > 0:
            copy(key_data, key_ends[row], key, target, to)
            to += key
        to = write_varint(target, to, value)
        if value > 0:
            copy(value_data, value_ends[row], value, target, to)
            to += value
        to = write_varint(target, to, end - begin)
        for header in range(begin, end):
            name = name_ends[header + 1] - name_ends[header]
            to = write_varint(target, to, name)
            copy(name_data, name_ends[header], name, target, to)
            to += name
            content = content_ends[header + 1] - content_ends[header] if has_content[header] else I(-1)
            to = write_varint(target, to, content)
            if content > 0:
                copy(content_data, content_ends[header], content, target, to)
                to += content
        n += 1
    return n, to
