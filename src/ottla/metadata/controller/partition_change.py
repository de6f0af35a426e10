"""The record that takes a partition from what it is to what is wanted, and sees to a leader on the way.

The rules of Kafka's PartitionChangeBuilder, KIP-966 included: while the ISR is smaller than min.insync.replicas those
who leave it stay eligible leader replicas (ELR), because nothing can have been acknowledged without them; the ISR may
then become empty. What Kafka calls the last known ELR holds the last leader of a partition that has none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from ottla.metadata.image import NO_LEADER, LeaderRecoveryState, PartitionImage
from ottla.metadata.partition_records import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE
from ottla.metadata.records.partition_change_record import PartitionChangeRecord

# metadata.version from which a smaller ISR no longer needs a new leader epoch, and from which directories are known
NO_EPOCH_FOR_SHRINK: Final = 12
DIRECTORIES: Final = 17


class Election(Enum):
    ONLINE = "online"  # any in-sync replica, the leader of now if it can stay
    PREFERRED = "preferred"  # the first replica if it is in sync
    UNCLEAN = "unclean"  # rather one that may lack records than none


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for every partition of a topic while one decision is made."""

    metadata_version: int
    has_elr: bool  # whether eligible.leader.replicas.version is finalised
    min_isr: int  # min.insync.replicas, no more than there are replicas
    default_directory: Callable[[int], UUID]  # of a broker that gets a replica


class PartitionChange:
    """What is wanted: begins as what is; whoever decides changes what is to be different, then takes the record."""

    __slots__ = (
        "acceptable",
        "adding",
        "before",
        "crashed",
        "directories",
        "election",
        "elr",
        "isr",
        "number",
        "recovery",
        "removing",
        "replicas",
        "rules",
        "topic_id",
    )

    def __init__(
        self, topic_id: UUID, number: int, before: PartitionImage, rules: Rules, acceptable: Callable[[int], bool]
    ) -> None:
        """`acceptable`: whether a broker is there and can lead this partition."""
        self.topic_id = topic_id
        self.number = number
        self.before = before
        self.rules = rules
        self.acceptable = acceptable
        self.election = Election.ONLINE
        self.isr = before.isr
        self.elr = before.elr
        self.replicas = before.replicas
        self.adding = before.adding_replicas
        self.removing = before.removing_replicas
        self.recovery = before.leader_recovery_state
        self.directories: dict[int, UUID] = {}  # where brokers say that they have their replica
        self.crashed: int | None = None
        """A broker that ended without syncing its log: it is in neither ISR nor ELR any more."""

    def record(self) -> PartitionChangeRecord | None:
        """None if nothing changes."""
        before, rules = self.before, self.rules
        self._complete_reassignment()
        self._see_to_elr()
        leader, unclean = self._elect()
        isr: tuple[int, ...] | None = None
        recovery: int = NO_RECOVERY_CHANGE
        if leader == before.leader:
            leader = NO_LEADER_CHANGE
        elif leader in self.elr:
            self.isr = (leader,)
            self.elr = tuple(broker_id for broker_id in self.elr if broker_id != leader)
        if unclean and leader != NO_LEADER_CHANGE:
            isr = (leader,)
            if before.leader_recovery_state is not LeaderRecoveryState.RECOVERING:
                recovery = LeaderRecoveryState.RECOVERING
        if leader == NO_LEADER_CHANGE and not set(before.replicas) <= set(self.replicas):
            leader = before.leader  # a new epoch: whoever was taken out must not be believed any more
        if isr is not None or not rules.has_elr:
            self.elr = ()
        if isr is None and (self.isr or rules.has_elr) and self.isr != before.isr:
            isr = self.isr
        if (
            rules.metadata_version < NO_EPOCH_FOR_SHRINK
            and leader == NO_LEADER_CHANGE
            and isr is not None
            and not set(before.isr) <= set(isr)
        ):
            leader = before.leader
        if self.recovery is not before.leader_recovery_state:
            recovery = self.recovery
        record = PartitionChangeRecord(
            partition_id=self.number,
            topic_id=self.topic_id,
            isr=isr,
            leader=leader,
            replicas=_if_changed(before.replicas, self.replicas),
            removing_replicas=_if_changed(before.removing_replicas, self.removing),
            adding_replicas=_if_changed(before.adding_replicas, self.adding),
            leader_recovery_state=recovery,
            directories=self._directories(),
            eligible_leader_replicas=_if_changed(before.elr, self.elr),
            last_known_elr=self._last_known_elr(leader),
        )
        nothing = PartitionChangeRecord(partition_id=self.number, topic_id=self.topic_id)
        return None if record == nothing else record

    def _complete_reassignment(self) -> None:
        completed = completed_reassignment(self.replicas, self.isr, self.adding, self.removing)
        if completed is not None:
            self.replicas, self.isr = completed
            self.adding = self.removing = ()

    def _see_to_elr(self) -> None:
        if not self.rules.has_elr:
            return
        if len(self.isr) >= self.rules.min_isr:
            self.elr = ()
            return
        # Who has no replica any more deletes what he had: not eligible either when he gets one again, and begins anew.
        left = {*self.before.elr, *self.before.isr}.intersection(self.replicas).difference(self.isr)
        self.elr = tuple(sorted(broker_id for broker_id in left if broker_id != self.crashed))

    def _elect(self) -> tuple[int, bool]:
        """The leader to be, and whether it may lack records that were acknowledged."""
        now = self.before.leader
        if self.election is Election.PREFERRED and self._can_lead(self.replicas[0]):
            return self.replicas[0], False
        if self._can_lead(now):
            return now, False
        for broker_id in self.replicas:
            if self._can_lead(broker_id):
                return broker_id, False
        if self._last_leader_can_lead():
            return self.before.last_known_elr[0], True
        if self.election is Election.UNCLEAN:
            for broker_id in self.replicas:
                if self.acceptable(broker_id):
                    return broker_id, True
        return NO_LEADER, False

    def _can_lead(self, broker_id: int) -> bool:
        eligible = broker_id in self.isr or (not self.isr and broker_id in self.elr)
        return eligible and self.acceptable(broker_id)

    def _last_leader_can_lead(self) -> bool:
        """When nobody is eligible any more, the leader of last has the best chance to have everything."""
        last = self.before.last_known_elr
        if not self.rules.has_elr or self.isr or self.elr or len(last) != 1:
            return False
        return self.acceptable(last[0])

    def _last_known_elr(self, leader: int) -> tuple[int, ...] | None:
        if not self.rules.has_elr:
            return None
        if leader == NO_LEADER and not self.before.last_known_elr and self.before.leader != NO_LEADER:
            return (self.before.leader,)
        if leader >= 0 and self.before.last_known_elr:
            return ()
        return self._last_in_sync(leader)

    def _last_in_sync(self, leader: int) -> tuple[int, ...] | None:
        """Nobody has led since before account was kept of eligible replicas, so no last leader is known. Now the last
        one in sync has crashed: it stands in for him, or nobody could ever lead again."""
        before = self.before
        in_sync = before.isr or before.elr
        if leader != NO_LEADER_CHANGE or before.leader != NO_LEADER or before.last_known_elr:
            return None
        return in_sync if len(in_sync) == 1 and not self.isr and not self.elr else None

    def _directories(self) -> tuple[UUID, ...] | None:
        if self.rules.metadata_version < DIRECTORIES:
            return None
        before = dict(zip(self.before.replicas, self.before.directories, strict=True))
        now = tuple(
            self.directories.get(broker_id) or before.get(broker_id) or self.rules.default_directory(broker_id)
            for broker_id in self.replicas
        )
        return None if now == self.before.directories else now


def completed_reassignment(
    replicas: tuple[int, ...], isr: tuple[int, ...], adding: Collection[int], removing: Collection[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Replicas and ISR when those that were to go are gone; None if there is none under way, or it is too early."""
    if not adding and not removing:
        return None
    isr_left = tuple(broker_id for broker_id in isr if broker_id not in removing)
    replicas_left = tuple(broker_id for broker_id in replicas if broker_id not in removing)
    if removing and not (isr_left and replicas_left):
        return None
    adding = set(adding).difference(removing)  # who was to be added by a move that this one has replaced goes again
    if not adding <= set(isr_left):
        return None
    # With fewer replicas than before all of them must be in sync, or the ISR would become smaller than it has to be.
    if len(adding) < len(removing) and not set(replicas_left) <= set(isr_left):
        return None
    return replicas_left, isr_left


def _if_changed(before: tuple[int, ...], now: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if before == now else now
