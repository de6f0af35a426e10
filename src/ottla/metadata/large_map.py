"""A mapping of which a changed copy is cheap: it is kept in small dicts, and a copy shares those that stay the same.

A cluster may have a hundred thousand topics. To copy one dict of all of them for every change of one costs 25 ms and
the memory of it; here a copy costs a list of pointers, and each change one dict of about a hundred entries. Reading is
slower than a dict's, so mappings below `LARGE` stay dicts.

Whoever makes a copy may write to it until it hands it on; after that nobody may, as with the dicts of an image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import chain
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
LARGE: Final = 2048
_BITS: Final = 7  # consecutive numbers that lie together: the partitions of a topic stay in order
_TOO_FULL: Final = 4  # times what a dict is meant to hold


def writable_copy(mapping: Mapping[K, V]) -> MutableMapping[K, V]:
    if isinstance(mapping, LargeMap):
        return mapping.copy()
    return LargeMap(mapping) if len(mapping) >= LARGE else dict(mapping)


class LargeMap(MutableMapping[K, V]):
    __slots__ = ("_length", "_mask", "_own", "_shards")

    def __init__(self, mapping: Mapping[K, V]) -> None:
        self._fill(mapping)

    def _fill(self, mapping: Mapping[K, V]) -> None:
        count = 1 << max(1, (len(mapping) >> _BITS).bit_length())
        self._mask = count - 1
        self._shards: list[dict[K, V]] = [{} for _ in range(count)]
        self._own = set(range(count))
        self._length = len(mapping)
        for key, value in mapping.items():
            self._shards[hash(key) >> _BITS & self._mask][key] = value

    def copy(self) -> LargeMap[K, V]:
        copied: LargeMap[K, V] = LargeMap.__new__(LargeMap)
        copied._mask = self._mask
        copied._shards = self._shards.copy()
        copied._own = set()
        copied._length = self._length
        return copied

    def __getitem__(self, key: K) -> V:
        return self._shards[hash(key) >> _BITS & self._mask][key]

    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        return self._shards[hash(key) >> _BITS & self._mask].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._shards[hash(key) >> _BITS & self._mask]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._shards)

    def __setitem__(self, key: K, value: V) -> None:
        shard = self._to_write(key)
        before = len(shard)
        shard[key] = value
        self._length += len(shard) - before
        if self._length > (self._mask + 1 << _BITS) * _TOO_FULL:
            self._fill(dict(self))

    def __delitem__(self, key: K) -> None:
        del self._to_write(key)[key]
        self._length -= 1

    def _to_write(self, key: K) -> dict[K, V]:
        number = hash(key) >> _BITS & self._mask
        if number not in self._own:
            self._own.add(number)
            self._shards[number] = self._shards[number].copy()
        return self._shards[number]
