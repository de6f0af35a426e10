"""When a group changes its protocol: the first consumer upgrades a classic group, the last one to go downgrades it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from ottla.coordinator.group.classic.groups import ClassicGroups
from ottla.coordinator.group.consumer.core import Core
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.members import Member
from ottla.coordinator.group.consumer.removal import Removal
from ottla.coordinator.group.migration.downgrade import can_downgrade, can_downgrade_with, downgraded
from ottla.coordinator.group.migration.policy import Policy
from ottla.coordinator.group.migration.upgrade import check_upgrade, upgraded
from ottla.coordinator.machine import Outcome, StoredRecord

R = TypeVar("R")
_log: Final = logging.getLogger("ottla.coordinator")


@dataclass(frozen=True, slots=True)
class Rules:
    """Of the broker's config."""

    policy: Policy = Policy.BIDIRECTIONAL
    max_classic_size: int = 2**31 - 1


BY_DEFAULT: Final = Rules()


class Moves:
    """To consumer groups it stands for the classic groups beside them."""

    def __init__(self, classic: ClassicGroups, core: Core, removal: Removal, rules: Rules) -> None:
        self._classic = classic
        self._core = core
        self._removal = removal
        self._rules = rules

    # -- a consumer comes to a classic group

    def has(self, group_id: str) -> bool:
        return self._classic.has(group_id)

    def make_room(self, group_id: str) -> list[StoredRecord]:
        group = self._classic.get(group_id)
        if group is None or group.is_empty:
            return self._classic.make_room(group_id)
        check_upgrade(group, allowed=self._rules.policy.upgrades, max_size=self._core.limits.max_size)
        return upgraded(group, self._core.image(), self._core.hashes.of)

    def gave_way(self, group_id: str) -> None:
        self._classic.gave_way(group_id)

    # -- only classic members are left

    def without(self, group: ConsumerGroup, leaving: Sequence[Member], reply: R) -> Outcome[R] | None:
        """None: it stays a consumer group."""
        if not self._rules.policy.downgrades or not can_downgrade(group, leaving, self._rules.max_classic_size):
            return None
        gone = tuple(member.id for member in leaving)
        return self._downgrade(group, gone, None, reply, rebalances=True)

    def is_last(self, group: ConsumerGroup, replaced: Member) -> bool:
        """Whether no consumer is left once a classic member has taken the place of this one."""
        return self._rules.policy.downgrades and can_downgrade_with(group, replaced, self._rules.max_classic_size)

    def replaced_by(self, group: ConsumerGroup, joining: Member, *, is_stale: bool) -> Outcome[None]:
        """A classic member takes the place of the last consumer. What is assigned still holds, unless it is stale."""
        return self._downgrade(group, (), joining, None, rebalances=is_stale)

    def _downgrade(
        self, group: ConsumerGroup, leaving: tuple[str, ...], joining: Member | None, reply: R, *, rebalances: bool
    ) -> Outcome[R]:
        classic, records = downgraded(group, leaving, joining, self._core.image(), self._core.now_ms())
        members = tuple(group.members)
        for member_id in members:
            self._removal.forget(group.id, member_id)
        self._classic.take_over(classic, leaving, rebalances=rebalances)
        _log.info("group %s has moved from the consumer to the classic protocol", group.id)
        return Outcome(reply, records, partial(self._removal.restore, group.id, members))
