"""A classic group of consumers as a consumer group: what its members have is what they had in its last generation.

All of them are stable in the epoch that was the generation. If the group was just rebalancing, its members are told so
and come again, to a consumer group then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from ottla.coordinator.group.classic.embedded_protocol import Places, Unreadable, read_assignment, read_subscription
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.members import Member as ClassicGroupMember
from ottla.coordinator.group.classic.records import tombstone
from ottla.coordinator.group.consumer.members import ClassicMember, Member, MemberState
from ottla.coordinator.group.consumer.records import (
    GroupEpoch,
    TargetEpoch,
    current_record,
    group_record,
    member_record,
    target_epoch_record,
    target_record,
)
from ottla.coordinator.machine import StoredRecord
from ottla.metadata.image import MetadataImage
from ottla.model.errors import ErrorCode, KafkaError

_NO_PATTERN = ""


def check_upgrade(group: ClassicGroup, *, allowed: bool, max_size: int) -> None:
    """KafkaError with Kafka's words if the group cannot become a consumer group."""
    if not allowed:
        raise _refusal(group.id, "online upgrade is disabled")
    if not group.is_of_consumers:
        raise _refusal(group.id, "the group does not use the consumer embedded protocol")
    if len(group.members) > max_size:
        raise _refusal(group.id, "the group size exceeds the consumer group maximum size")


def upgraded(
    group: ClassicGroup, image: MetadataImage, hash_of: Callable[[Collection[str]], int]
) -> list[StoredRecord]:  # fmt: skip
    """The records that end the classic group and begin the consumer group, in Kafka's order."""
    claims = _Claims(image)
    members = [_converted(group, member, claims) for member in group.members.values()]
    topics = frozenset(topic for member in members for topic in member.topics)
    return [
        tombstone(group.id),
        *(member_record(group.id, member) for member in members),
        group_record(group.id, GroupEpoch(group.generation, hash_of(topics))),
        *(target_record(group.id, member.id, _target(member)) for member in members),
        target_epoch_record(group.id, TargetEpoch(group.generation)),
        *(current_record(group.id, member) for member in members),
    ]


def _converted(group: ClassicGroup, member: ClassicGroupMember, claims: _Claims) -> Member:
    try:
        assignment = read_assignment(member.assignment)
        # before the first generation no protocol has been chosen; in all of them a member says the same of its topics
        subscription = read_subscription(member.metadata(group.protocol or member.protocols[0].name))
    except Unreadable as error:
        raise _refusal(group.id, "the embedded consumer protocol is malformed") from error
    if assignment.user_data:
        raise _refusal(
            group.id,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade",
        )
    return Member(
        member.id,
        member.instance_id,
        subscription.rack,
        member.client.id,
        member.client.host,
        frozenset(subscription.topics),
        _NO_PATTERN,
        member.rebalance_timeout_ms,
        None,
        ClassicMember(member.session_timeout_ms, member.protocols),
        group.generation,
        group.generation,
        MemberState.STABLE,
        {
            topic_id: dict.fromkeys(partitions, group.generation)
            for topic_id, partitions in claims.granted(assignment.places).items()
        },
    )


class _Claims:
    """What members say they have was shared out by one of them, and nobody has checked it.

    Only what there is can be had, and by one member: the first in the group's order.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._taken: dict[UUID, set[int]] = {}

    def granted(self, places: Places) -> dict[UUID, list[int]]:
        granted: dict[UUID, list[int]] = {}
        for name, partitions in places.items():
            topic = self._image.topic(name)
            if topic is None:
                continue
            taken = self._taken.setdefault(topic.id, set())
            if free := sorted((topic.partitions.keys() & set(partitions)) - taken):
                taken.update(free)
                granted[topic.id] = free
        return granted


def _target(member: Member) -> dict[UUID, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()}


def _refusal(group_id: str, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.group_id_not_found, f"Cannot upgrade classic group {group_id} to consumer group because {why}."
    )
