"""The store of the remote tier, as a process of Spark has it open."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.tier.reader import SegmentReader

_KEPT_BYTES: Final = 64 * 1024 * 1024
_READS_AT_ONCE: Final = 8
_readers: dict[tuple[int, TierPlace], SegmentReader] = {}


class TierPlace(NamedTuple):
    url: str
    options: tuple[tuple[str, str], ...] = ()


def reader_of(place: TierPlace) -> SegmentReader:
    """The same one for all tasks of this process: what one has read ahead serves the next. Every chunk is checked."""
    key = (os.getpid(), place)
    if key not in _readers:
        from ottla.env.obstore_store import open_store
        from ottla.tier.chunks import Chunks
        from ottla.tier.reader import SegmentReader

        store = open_store(place.url, dict(place.options))
        chunks = Chunks(store, lambda: _KEPT_BYTES, lambda: _READS_AT_ONCE)
        _readers[key] = SegmentReader(chunks, lambda: _KEPT_BYTES)
    return _readers[key]
