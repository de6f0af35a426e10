"""What members of consumer groups ask and are told, without the versions of the wire."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from ottla.coordinator.group.assignors.spec import Assignment
from ottla.coordinator.group.classic.requests import Client
from ottla.coordinator.group.consumer.members import Assigned, Member

NOT_SAID: Final = -1


class HeartbeatRequest(NamedTuple):
    """What is None, or -1, has not changed since the last one."""

    group_id: str
    member_id: str
    epoch: int
    client: Client
    instance_id: str | None = None
    rack: str | None = None
    rebalance_timeout_ms: int = NOT_SAID
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Mapping[UUID, Collection[int]] | None = None
    may_see: Callable[[str], bool] = lambda topic: True
    """Whether whoever asks may know of a topic: a pattern matches no others."""

    @property
    def is_full(self) -> bool:
        """A member that does not know what the coordinator knows says everything, and wants to hear everything."""
        says_topics = self.topics is not None or self.pattern is not None
        return self.rebalance_timeout_ms != NOT_SAID and says_topics and self.owned is not None


class HeartbeatAnswer(NamedTuple):
    member_id: str
    epoch: int
    heartbeat_interval_ms: int = 0
    assigned: Assigned | None = None
    """None: what it has been told before still holds."""


class DescribedMember(NamedTuple):
    member: Member
    target: Assignment


class DescribedGroup(NamedTuple):
    group_id: str
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: Sequence[DescribedMember]
