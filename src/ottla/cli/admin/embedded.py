"""What members of classic groups tell each other through the coordinator, for those who look: leniently."""

from __future__ import annotations

from ottla.coordinator.group.classic.embedded_protocol import Unreadable, read_assignment, read_subscription
from ottla.model.names import TopicPartition


def assigned_partitions(data: bytes) -> tuple[TopicPartition, ...] | None:
    """The partitions of an assignment, sorted; None if it does not follow the format."""
    try:
        places = read_assignment(data).places
    except Unreadable:
        return None
    return tuple(sorted(TopicPartition(topic, number) for topic, numbers in places.items() for number in numbers))


def subscribed_topics(data: bytes) -> tuple[str, ...]:
    """The topics of a subscription, sorted; none where it does not follow the format."""
    try:
        return tuple(sorted(read_subscription(data).topics))
    except Unreadable:
        return ()
