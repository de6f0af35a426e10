"""The store of the remote tier, as a process of Spark has it open."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.env.object_store import ObjectStore
    from ottla.tier.chunks import Chunks
    from ottla.tier.reader import SegmentReader
    from ottla.tier.segment_stream import SegmentStream, Span

_KEPT_BYTES: Final = 16 * 1024 * 1024
_READS_AT_ONCE: Final = 8


class TierPlace(NamedTuple):
    url: str
    options: tuple[tuple[str, str], ...] = ()


class _Open(NamedTuple):
    store: ObjectStore
    chunks: Chunks
    reader: SegmentReader


_open: dict[tuple[int, TierPlace], _Open] = {}


def reader_of(place: TierPlace) -> SegmentReader:
    """Of indexes above all."""
    return _opened(place).reader


def stream_of(place: TierPlace, spans: Sequence[Span]) -> SegmentStream:
    from ottla.tier.segment_stream import SegmentStream

    return SegmentStream(*_opened(place), spans)


def _opened(place: TierPlace) -> _Open:
    """The same for all tasks of this process, with its open connections."""
    key = (os.getpid(), place)
    if key not in _open:
        from ottla.env.obstore_store import open_store
        from ottla.tier.chunks import Chunks
        from ottla.tier.reader import SegmentReader

        store = open_store(place.url, dict(place.options))
        chunks = Chunks(store, lambda: _KEPT_BYTES, lambda: _READS_AT_ONCE)
        _open[key] = _Open(store, chunks, SegmentReader(chunks, lambda: _KEPT_BYTES))
    return _open[key]
