"""What a leader has cleaned away of a compacted log although nothing that is committed has replaced it."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.sim.cluster.oracle import PartitionStory
from ottla.sim.log_files import StoredLog


def cleaned_too_much(
    story: PartitionStory, log: StoredLog, start: int, high_watermark: int
) -> Iterator[tuple[bytes, int]]:
    """Keys, and where the last value of each stood below the high watermark of a leader whose log this is.

    A leader is owed nothing that it was never told of: one that is cut off lacks what another has committed since. Nor
    does its high watermark, which starts low after a crash, bound what it has cleaned before: what lies above it and is
    the committed record of that offset has replaced what it may.
    """
    offsets: dict[bytes, list[int]] = {}
    for offset, fact in story.facts.items():
        if fact.key is not None and not fact.is_excused:
            offsets.setdefault(fact.key, []).append(offset)
    for key, known in offsets.items():
        last = max((offset for offset in known if offset < high_watermark), default=-1)
        if last < start or last in log.records or story.lost_keys.get(key, -1) > last:
            continue
        if not any(_replaces(story, log, offset) for offset in known if offset >= last):
            yield key, last


def _replaces(story: PartitionStory, log: StoredLog, offset: int) -> bool:
    """Whether the log has, or once had, what is committed at an offset: deletions are not always kept."""
    fact, found = story.facts[offset], log.records.get(offset)
    if found is not None:
        return found.value == fact.value
    return not fact.value and not story.cleanup.keeps_deletions and offset < log.end
