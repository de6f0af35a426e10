"""The leader's side of a partition with several replicas: how far its followers are, and who of them is in sync."""

from __future__ import annotations

from math import inf

from ottla.metadata.controller.requests import IsrMember
from ottla.replica.follower_state import FollowerState
from ottla.replica.isr import Isr, IsrChange
from ottla.replica.results import Leadership
from ottla.replica.surroundings import Surroundings


class Leading:
    """No I/O, no clock: who asks says what time it is and where the log ends."""

    def __init__(self, node_id: int, surroundings: Surroundings) -> None:
        self.isr = Isr()
        self.followers: dict[int, FollowerState] = {}
        self.epoch_start_offset = 0
        self._node_id = node_id
        self._around = surroundings

    def assign(self, leadership: Leadership, *, is_known: bool = False) -> None:
        """What the metadata says counts; a change under way is forgotten, and its answer will be out of date.

        Except where it only repeats what an answer has told already: a change that was proposed on that may still be
        made, and who joins by it must not be forgotten.
        """
        for broker_id in leadership.replicas:
            if broker_id != self._node_id and broker_id not in self.followers:
                self.followers[broker_id] = FollowerState(broker_id)
        for broker_id in [each for each in self.followers if each not in leadership.replicas]:
            del self.followers[broker_id]
        if not is_known:
            self.isr.settle(leadership.isr)

    def begin_epoch(self, now: float, log_end: int, *, is_new_leader: bool) -> None:
        self.epoch_start_offset = log_end
        for follower in self.followers.values():
            in_sync = follower.broker_id in self.isr.committed
            follower.reset(now, log_end, is_new_leader=is_new_leader, is_in_sync=in_sync)

    # -- progress

    def is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a fetch comes from an earlier incarnation of a broker (KIP-903)."""
        broker = self._around.broker(broker_id)
        return broker_epoch != -1 and broker is not None and not broker.fenced and broker.epoch > broker_epoch

    def high_watermark(self, log_end: int, now: float) -> int:
        """Up to where all have the log that are in sync, about to be, or caught up and allowed to be."""
        lowest, maximal = log_end, self.isr.maximal
        for follower in self.followers.values():
            if follower.end_offset < lowest and (
                follower.broker_id in maximal
                or (follower.is_caught_up(log_end, now, self._around.lag_time_max_s) and self._is_eligible(follower))
            ):
                lowest = follower.end_offset
        return lowest

    def low_watermark(self, start_offset: int) -> int:
        """The lowest start of the logs of all replicas that live."""
        for follower in self.followers.values():
            broker = self._around.broker(follower.broker_id)
            if broker is not None and not broker.fenced and follower.start_offset < start_offset:
                start_offset = follower.start_offset
        return start_offset

    # -- who is in sync

    def _is_eligible(self, follower: FollowerState) -> bool:
        broker = self._around.broker(follower.broker_id)
        return broker is not None and broker.active and follower.broker_epoch in (-1, broker.epoch)

    def expansion(
        self, follower: FollowerState, high_watermark: int, leader_epoch: int, partition_epoch: int
    ) -> IsrChange | None:
        """The change to propose now that a follower has fetched, if it may join."""
        isr = self.isr
        if isr.change is not None or follower.broker_id in isr.committed:
            return None
        if follower.end_offset < high_watermark or follower.end_offset < self.epoch_start_offset:
            return None
        if not self._is_eligible(follower):
            return None
        members = self._members((*isr.committed, follower.broker_id))
        return IsrChange(members, leader_epoch, partition_epoch, follower.broker_id)

    def out_of_sync(self, log_end: int, now: float) -> list[int]:
        if self.isr.change is not None:
            return []
        lag, followers = self._around.lag_time_max_s, self.followers
        return [
            broker_id
            for broker_id in self.isr.committed
            if broker_id != self._node_id
            and (broker_id not in followers or not followers[broker_id].is_caught_up(log_end, now, lag))
        ]

    def shrinking(self, leaving: list[int], leader_epoch: int, partition_epoch: int) -> IsrChange:
        left = tuple(broker_id for broker_id in self.isr.committed if broker_id not in leaving)
        return IsrChange(self._members(left), leader_epoch, partition_epoch)

    def _members(self, broker_ids: tuple[int, ...]) -> tuple[IsrMember, ...]:
        """With their epochs, so that one that was restarted meanwhile is not taken for its former self (KIP-903)."""
        return tuple(IsrMember(broker_id, self._epoch_of(broker_id)) for broker_id in broker_ids)

    def _epoch_of(self, broker_id: int) -> int:
        if broker_id == self._node_id:
            return self._around.broker_epoch
        follower = self.followers.get(broker_id)
        return follower.broker_epoch if follower is not None and follower.broker_epoch is not None else -1

    def describe(self, broker_ids: list[int], now: float) -> str:
        return ", ".join(self._describe(broker_id, now) for broker_id in broker_ids)

    def _describe(self, broker_id: int, now: float) -> str:
        follower = self.followers.get(broker_id)
        if follower is None or follower.caught_up_at == -inf:
            return f"{broker_id} (never caught up)"
        return f"{broker_id} (at offset {follower.end_offset}, caught up {now - follower.caught_up_at:.1f} s ago)"
