"""What members of classic groups tell each other through the coordinator, as Kafka's consumers write it."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from ottla.model.names import TopicPartition

_VERSION: Final = Struct(">h")
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions of an assignment, sorted; None if it does not follow the format."""
    if not data:
        return ()
    try:
        at = _VERSION.size
        topics, at = _int(data, at)
        found = []
        for _ in range(topics):
            (size,) = _SHORT.unpack_from(data, at)
            at += _SHORT.size
            name = data[at : at + size].decode()
            if size < 0 or at + size > len(data):
                return None
            numbers, at = _int(data, at + size)
            for _ in range(numbers):
                number, at = _int(data, at)
                found.append(TopicPartition(name, number))
    except (StructError, UnicodeDecodeError):
        return None
    return tuple(sorted(found))


def subscribed_topics(data: bytes) -> tuple[str, ...]:
    """The topics of a subscription, sorted; none where it does not follow the format."""
    from ottla.coordinator.group.classic.subscriptions import topics_of

    return tuple(sorted(topics_of([data]) or ()))


def _int(data: bytes, at: int) -> tuple[int, int]:
    (number,) = _INT.unpack_from(data, at)
    return number, at + _INT.size
