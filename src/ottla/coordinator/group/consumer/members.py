"""One member of a consumer group, as records say it: what it wants, and how far it has come with what it is to have."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.coordinator.group.classic.requests import Protocol

LEFT: Final = -1
"""The epoch of a member that leaves, and of one whose records are being deleted."""
AWAY: Final = -2
"""The epoch of a static member that left for a while."""
JOINING: Final = 0

Assigned = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the epoch in which the member got it. Never changed in place, no topic is empty."""
NOTHING: Final[Assigned] = {}


class MemberState(IntEnum):
    """The numbers are those of the records."""

    STABLE = 0  # it has reached its epoch: nothing to give up, nothing to wait for
    UNREVOKED_PARTITIONS = 1  # it has to give up partitions before it reaches the next epoch
    UNRELEASED_PARTITIONS = 2  # it is in the newest epoch, but others still have partitions of its
    UNKNOWN = 127  # written by a coordinator that knows more

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class ClassicMember(NamedTuple):
    """What is kept of a member that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int = 0
    protocols: tuple[Protocol, ...] = ()


class Member(NamedTuple):
    """The first part is what it says of itself (MemberMetadata), the rest how far it is (CurrentMemberAssignment)."""

    id: str
    instance_id: str | None = None
    rack: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    pattern: str | None = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None

    epoch: int = JOINING
    previous_epoch: int = -1
    """If the answer that told of the epoch was lost, it comes again with this one."""
    state: MemberState = MemberState.STABLE
    assigned: Assigned = NOTHING
    revoking: Assigned = NOTHING

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assigned_in(self, topic_id: UUID, partition: int) -> int | None:
        """The epoch in which it got a partition that it has, or still has to give up."""
        for partitions in (self.assigned.get(topic_id), self.revoking.get(topic_id)):
            if partitions is not None and partition in partitions:
                return partitions[partition]
        return None

    @property
    def subscription(self) -> tuple[str, ...]:
        """For people: topics in order, then the pattern."""
        return (*sorted(self.topics), *((self.pattern,) if self.pattern else ()))
