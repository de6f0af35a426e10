"""Segments in the remote tier, as tests need them."""

from __future__ import annotations

from uuid import UUID

from ottla.log.epochs import EpochStart
from ottla.tier.remote_segment import RemotePartition, RemoteSegment, SegmentState, SegmentUpdate

OF = RemotePartition("orders", UUID("6e9b1d3a-7b0f-4c6e-9a51-0f3d2c4b5a69"), 3)


def segment(
    number: int,
    start: int,
    end: int,
    *epochs: tuple[int, int],
    state: SegmentState = SegmentState.COPY_STARTED,
    max_timestamp: int = 1000,
    size: int = 100,
    custom: bytes | None = None,
) -> RemoteSegment:
    """`number` tells attempts apart."""
    starts = tuple(EpochStart(*epoch) for epoch in epochs or ((0, start),))
    return RemoteSegment(OF, UUID(int=number), start, end, 1, max_timestamp, 50, starts, size, state, custom)


def update(of: RemoteSegment, state: SegmentState, custom: bytes | None = None) -> SegmentUpdate:
    return SegmentUpdate(of.of, of.id, 1, 60, state, custom)
