"""What may be wrong with a partition, in the terms of Kafka's tools."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cli.admin.topics import PartitionInfo


class State(Enum):
    UNDER_REPLICATED = "under-replicated"
    UNDER_MIN_ISR = "under-min-isr"
    AT_MIN_ISR = "at-min-isr"
    UNAVAILABLE = "unavailable"


def states(part: PartitionInfo, min_isr: int, adding: int = 0) -> frozenset[State]:
    """`adding` replicas of a move under way are not missed before they are there. And acks=all waits for no more than
    there are, whatever min.insync.replicas says."""
    in_sync, needed = len(part.isr), min(min_isr, len(part.replicas))
    found = {
        State.UNDER_REPLICATED: in_sync < len(part.replicas) - adding,
        State.UNDER_MIN_ISR: part.leader < 0 or in_sync < needed,
        State.AT_MIN_ISR: in_sync == needed,
        State.UNAVAILABLE: part.leader < 0,
    }
    return frozenset(state for state, holds in found.items() if holds)
