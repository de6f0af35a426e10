"""What the node hands to the process that cleans a log, and what it hears back. Plain values: they travel by pickle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.log.txn_index import AbortedTxn


class Source(NamedTuple):
    """A segment as it is: cleaned ones take its place and that of its neighbours."""

    base_offset: int
    size: int
    index_size: int
    time_index_size: int


class LastOfProducer(NamedTuple):
    """The last that is known of a producer: its batch stays, even empty, since it says where its sequences are."""

    producer_id: int
    epoch: int
    last_offset: int  # -1 if only a marker is known of this epoch


@dataclass(frozen=True, slots=True)
class Limits:
    map_bytes: int
    map_load_factor: float
    buffer_bytes: int
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Contract:
    folder: str
    sources: tuple[Source, ...]
    """All segments below `bound`, the oldest first."""
    first_dirty: int
    """Below this offset no key comes twice."""
    bound: int
    """Nothing from here on is cleaned."""
    aborted: tuple[AbortedTxn, ...]
    producers: tuple[LastOfProducer, ...]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes: int
    index_interval: int
    limits: Limits
    secret: bytes
    """Sixteen bytes that no client knows."""


class CleanedGroup(NamedTuple):
    """Files named `.cleaned` lie there, durably, and are to take the place of some segments."""

    base_offset: int
    replaced: tuple[int, ...]
    size: int


@dataclass(slots=True)
class Outcome:
    end_offset: int = 0
    """Where the next cleaning begins: everything below is clean."""
    bytes_read: int = 0
    bytes_written: int = 0
    map_bytes_read: int = 0
    messages_read: int = 0
    messages_written: int = 0
    messages_without_key: int = 0
    map_utilization: float = 0.0
    map_s: float = 0.0
    elapsed_s: float = 0.0


class CorruptSegment(Exception):
    """A segment holds bytes that are no batches. What else it says cannot be believed either."""
