"""Which partition a group lives in."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_SHORT: Final = 128  # a cache of longer ids would be a way to fill the memory


def group_hash(group_id: str) -> int:
    """Java's String.hashCode over UTF-16 units, without its sign; of the smallest number, 0."""
    return _remembered(group_id) if len(group_id) <= _SHORT else _hash(group_id)


def _hash(group_id: str) -> int:
    value = 0
    encoded = group_id.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFF_FFFF
    if value >= 0x8000_0000:
        value = 0x1_0000_0000 - value
    return value & 0x7FFF_FFFF


_remembered = lru_cache(8192)(_hash)
