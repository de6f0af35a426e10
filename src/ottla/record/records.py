"""A record as a person sees it, and what can be wrong with the bytes of many."""

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """Offset and timestamp are absolute, as a consumer gets them."""

    key: bytes | None
    value: bytes | None
    timestamp: int = -1
    headers: Headers = ()
    offset: int = 0


class CorruptBatch(ValueError):
    """Bytes that are not the batch they say they are."""


class BatchTooLarge(CorruptBatch):
    """Records that decompress to more than the caller allows."""
