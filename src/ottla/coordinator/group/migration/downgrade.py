"""A consumer group whose members all speak the classic protocol, as a classic group.

What a member is to have is what it is told to have assigned, in the words of its own version. The generation is the
group's epoch.
"""

from __future__ import annotations

from collections.abc import Collection

from ottla.coordinator.group.assignors.spec import Assignment
from ottla.coordinator.group.classic.embedded_protocol import version_to_answer, write_assignment
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.members import Member as ClassicGroupMember
from ottla.coordinator.group.classic.records import group_record
from ottla.coordinator.group.classic.requests import Client
from ottla.coordinator.group.classic.subscriptions import CONSUMER
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.members import Member
from ottla.coordinator.machine import StoredRecord
from ottla.metadata.image import MetadataImage


def can_downgrade(group: ConsumerGroup, leaving: Collection[Member], max_size: int) -> bool:
    """Whether only classic members are left, and not too many. A group without members stays what it is."""
    left = len(group.members) - len(leaving)
    classic_left = group.counts.classic_members - sum(member.classic is not None for member in leaving)
    return classic_left == left and 0 < left <= max_size


def can_downgrade_with(group: ConsumerGroup, replaced: Member, max_size: int) -> bool:
    """Whether a classic member that takes the place of another leaves only classic ones."""
    is_last = replaced.classic is None and group.counts.classic_members == len(group.members) - 1
    return is_last and len(group.members) <= max_size


def downgraded(
    group: ConsumerGroup, leaving: Collection[str], joining: Member | None, image: MetadataImage, now_ms: int
) -> tuple[ClassicGroup, list[StoredRecord]]:
    """The classic group, and the records that end the consumer group and begin it.

    A member that joins takes the place and the share of the static member with its instance id.
    """
    replaced = None if joining is None else group.static_member(joining.instance_id)
    members: list[ClassicGroupMember] = []
    targets: dict[str, Assignment] = {}
    for member in (*(member for _, member in group.members.items()), *(() if joining is None else (joining,))):
        if member.id in leaving or (replaced is not None and member is replaced):
            continue
        owner = replaced.id if replaced is not None and member is joining else member.id
        targets[member.id] = group.targets.get(owner) or {}
        members.append(_converted(member))
    classic = ClassicGroup.moved_from_consumer_protocol(group.id, group.epoch, members, now_ms)
    assignments = {member.id: _share(classic, member, targets[member.id], image) for member in members}
    for member in members:
        member.assignment = assignments[member.id]
    return classic, [*group.deletions(), group_record(group.id, classic.stored(assignments))]


def _converted(member: Member) -> ClassicGroupMember:
    classic = member.classic
    assert classic is not None
    return ClassicGroupMember(
        member.id,
        member.instance_id,
        Client(member.client_id, member.client_host),
        CONSUMER,
        classic.protocols,
        classic.session_timeout_ms,
        member.rebalance_timeout_ms,
    )


def _share(group: ClassicGroup, member: ClassicGroupMember, target: Assignment, image: MetadataImage) -> bytes:
    return write_assignment(version_to_answer(member.metadata(group.protocol)), topic_names(target, image))


def topic_names(assignment: Assignment, image: MetadataImage) -> dict[str, Collection[int]]:
    """Partitions by the names of their topics; topics that are gone are left out."""
    found = ((image.topics.get(topic_id), partitions) for topic_id, partitions in assignment.items())
    return {topic.name: partitions for topic, partitions in found if topic is not None}
