"""Which partition a group lives in."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(4096)
def group_hash(group_id: str) -> int:
    """Java's String.hashCode over UTF-16 units, without its sign; of the smallest number, 0."""
    value = 0
    encoded = group_id.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (value * 31 + (high << 8 | low)) & 0xFFFF_FFFF
    if value >= 0x8000_0000:
        value = 0x1_0000_0000 - value
    return value & 0x7FFF_FFFF
