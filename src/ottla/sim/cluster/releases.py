"""Earlier software, which a cluster may start with and is upgraded from, node by node.

It is the code of today that offers and supports no more than the earlier one did; so what is tried is what nodes agree
on, and what they write as long as not all can read more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.broker.software import THIS, Software
from ottla.metadata.controller.features import (
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    LATEST_METADATA_VERSION,
    TRANSACTION_VERSION,
)
from ottla.metadata.image import METADATA_VERSION, VersionRange

FETCH, LIST_OFFSETS, VOTE, ALTER_PARTITION, REGISTER_BROKER, BROKER_HEARTBEAT = 1, 2, 52, 56, 62, 63


@dataclass(frozen=True, slots=True)
class Release:
    software: Software
    features: Mapping[str, int] | None = None
    """The levels that a cluster starts with; None: the newest."""

    @property
    def is_old(self) -> bool:
        return self.features is not None

    @property
    def has_transactions_by_epoch(self) -> bool:
        return self.features is None or self.features.get(TRANSACTION_VERSION, 0) >= 2


NEWEST: Final = Release(THIS)

_FOUR: Final = Software(
    {
        METADATA_VERSION: VersionRange(7, 25),  # 4.0-IV3
        KRAFT_VERSION: VersionRange(0, 1),
        GROUP_VERSION: VersionRange(0, 1),
        TRANSACTION_VERSION: VersionRange(0, 2),
        ELR_VERSION: VersionRange(0, 1),
    },
    {FETCH: 17, LIST_OFFSETS: 10, BROKER_HEARTBEAT: 1},
)
_BEFORE_FOUR: Final = Software(
    {
        METADATA_VERSION: VersionRange(7, 22),  # 4.0-IV0, as in the last of 3
        KRAFT_VERSION: VersionRange(0, 1),
        GROUP_VERSION: VersionRange(0, 1),
        TRANSACTION_VERSION: VersionRange(0, 1),
    },
    {FETCH: 17, LIST_OFFSETS: 9, VOTE: 1, ALTER_PARTITION: 2, REGISTER_BROKER: 3, BROKER_HEARTBEAT: 0},
)
RELEASES: Final = (
    Release(_FOUR, {METADATA_VERSION: 25, GROUP_VERSION: 1, TRANSACTION_VERSION: 2, ELR_VERSION: 1}),
    Release(_FOUR, {METADATA_VERSION: 25, GROUP_VERSION: 1, TRANSACTION_VERSION: 2}),
    Release(_BEFORE_FOUR, {METADATA_VERSION: 22, GROUP_VERSION: 1}),
)

TODAY: Final = {METADATA_VERSION: LATEST_METADATA_VERSION, GROUP_VERSION: 1, TRANSACTION_VERSION: 2, ELR_VERSION: 1}
"""What a cluster is upgraded to once all nodes can."""
