"""What a leader knows of one of its followers: from its fetches, and from nowhere else."""

from __future__ import annotations

from math import inf

from ottla.model.names import NO_OFFSET


class FollowerState:
    """Times are seconds of a clock that never goes back."""

    __slots__ = (
        "broker_epoch", "broker_id", "caught_up_at", "end_offset", "fetched_at", "leader_end_then", "start_offset",
    )  # fmt: skip

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.start_offset = self.end_offset = NO_OFFSET
        self.leader_end_then = 0  # where the leader's log ended when it fetched last
        self.fetched_at = self.caught_up_at = -inf
        self.broker_epoch: int | None = None  # as its fetch told, -1 if that told none

    def reset(self, now: float, leader_end: int, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """A new epoch begins. One that is not in sync must not hold back the high watermark."""
        self.caught_up_at = now if is_in_sync else -inf
        if is_new_leader:
            self.start_offset = self.end_offset = self.leader_end_then = NO_OFFSET
            self.fetched_at = -inf
            self.broker_epoch = None
        else:
            self.leader_end_then = leader_end
            self.fetched_at = self.caught_up_at

    def fetched(self, offset: int, start_offset: int, now: float, leader_end: int, broker_epoch: int) -> None:
        """It asks for what comes from an offset on, so it has all before that.

        One that always asks for a little less than there is has caught up with what there was when it asked before.
        """
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif offset >= self.leader_end_then:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.start_offset = start_offset
        self.end_offset = offset
        self.leader_end_then = max(leader_end, self.leader_end_then)
        self.fetched_at = now
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end: int, now: float, max_lag_s: float) -> bool:
        return leader_end == self.end_offset or now - self.caught_up_at <= max_lag_s
