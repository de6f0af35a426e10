"""The topics of a classic group, from what its consumers say when they join."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.coordinator.group.classic.embedded_protocol import Unreadable, read_topics

CONSUMER: Final = "consumer"


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of all members; None if one does not follow the format, as nothing can be said then."""
    try:
        return frozenset().union(*map(read_topics, set(subscriptions)))
    except Unreadable:
        return None
