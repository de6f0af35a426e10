"""From which snapshot on the metadata log is kept: by size and by age, as Kafka's raft log cleaner decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.raft.log_view import OffsetAndEpoch


@dataclass(frozen=True, slots=True)
class Retention:
    """-1 is no limit."""

    max_bytes: int = 100 << 20
    max_ms: int = 7 * 24 * 3_600_000


class Stored(NamedTuple):
    id: OffsetAndEpoch
    size: int
    timestamp_ms: int
    """Of the last batch that it contains."""


def first_to_keep(
    snapshots: Sequence[Stored], size_from: Callable[[int], int], retention: Retention, now_ms: int
) -> OffsetAndEpoch | None:
    """The snapshot at which the log is to begin; None if it stays as it is.

    A snapshot goes, with the log before the next one, while log and snapshots are too large together, or it is too old.
    The latest always stays. `size_from` gives the size of the log that begins at an offset.
    """
    kept = list(snapshots)
    while len(kept) > 1:
        total = sum(snapshot.size for snapshot in kept) + size_from(kept[0].id.offset)
        too_large = 0 <= retention.max_bytes < total
        too_old = 0 <= retention.max_ms < now_ms - kept[0].timestamp_ms
        if not too_large and not too_old:
            break
        kept.pop(0)
    return kept[0].id if kept and kept[0] is not snapshots[0] else None
