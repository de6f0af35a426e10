"""The in-sync replicas of a partition as its leader sees them: those that are committed, and a change under way.

Only the controller changes them (AlterPartition, KIP-497). Until it has answered, the leader counts on the larger set,
whichever that is: a replica that may be elected must have all that is committed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.metadata.controller.requests import AlteredPartition, IsrMember
from ottla.model.errors import ErrorCode


class IsrChange(NamedTuple):
    """What was proposed to the controller."""

    isr: tuple[IsrMember, ...]
    leader_epoch: int
    partition_epoch: int
    joining: int | None = None  # None for one that shrinks

    @property
    def is_expansion(self) -> bool:
        return self.joining is not None


# The controller has not applied the change, and what we know of the partition is right.
NOT_APPLIED: Final = frozenset({ErrorCode.operation_not_attempted, ErrorCode.ineligible_replica})
# What we know is old, or the change has cost us the leadership: the metadata will tell.
AWAIT_METADATA: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id, ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version, ErrorCode.invalid_request, ErrorCode.new_leader_elected,
    }
)  # fmt: skip


class Isr:
    """`committed` is what the controller said last; `maximal` is what the high watermark waits for."""

    __slots__ = ("change", "committed", "maximal")

    def __init__(self, committed: tuple[int, ...] = ()) -> None:
        self.committed = self.maximal = committed
        self.change: IsrChange | None = None

    def settle(self, committed: tuple[int, ...]) -> None:
        """The controller has spoken."""
        self.committed = self.maximal = committed
        self.change = None

    def propose(self, change: IsrChange) -> None:
        self.change = change
        if change.joining is not None:
            self.maximal = (*self.committed, change.joining)

    def refused(self, code: ErrorCode) -> bool:
        """Whether to ask again."""
        if code in NOT_APPLIED:
            self.settle(self.committed)
            return False
        return code not in AWAIT_METADATA


def counts(answer: AlteredPartition, leader_epoch: int, partition_epoch: int) -> bool:
    """Whether an answer is about what we know, or later; else it is out of date."""
    return answer.leader_epoch == leader_epoch and answer.partition_epoch >= partition_epoch
