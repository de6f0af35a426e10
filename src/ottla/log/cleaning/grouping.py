"""Which neighbouring segments become one: as many as a segment may hold, in bytes, index entries and offsets."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.log.cleaning.contract import Source
from ottla.log.index import MAX_RELATIVE_OFFSET


def groups(sources: Sequence[Source], bound: int, segment_bytes: int, index_bytes: int) -> list[tuple[Source, ...]]:
    """By their sizes before the cleaning. `bound` is the offset at which the segment after the last one begins."""
    found: list[tuple[Source, ...]] = []
    group: list[Source] = []
    size = index = time_index = 0
    for number, source in enumerate(sources):
        following = sources[number + 1].base_offset if number + 1 < len(sources) else bound
        fits = (
            bool(group)
            and size + source.size <= segment_bytes
            and index + source.index_size <= index_bytes
            and time_index + source.time_index_size <= index_bytes
            # An empty one adds no offset: else every 2^31 offsets an empty segment would stay behind.
            and (source.size == 0 or following - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if not fits:
            if group:
                found.append(tuple(group))
            group, size, index, time_index = [], 0, 0, 0
        group.append(source)
        size, index, time_index = size + source.size, index + source.index_size, time_index + source.time_index_size
    if group:
        found.append(tuple(group))
    return found
