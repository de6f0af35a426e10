"""Who owns which partition of a group: one member at a time, and only its commits count."""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.sim.cluster.oracle import Oracle
from ottla.sim.log_files import PartitionId


@dataclass(slots=True)
class Share:
    """What one member has been given and has not given back, and when it was last heard of for certain."""

    heard_at: float = 0.0
    owned: set[PartitionId] = field(default_factory=set)


class Ownership:
    def __init__(self, oracle: Oracle, group: str, offsets: PartitionId, expires_s: float) -> None:
        self._oracle = oracle
        self._group = group
        self.offsets = offsets
        self._expires_s = expires_s
        """No coordinator gives up on a member before it was silent for so long."""
        self._shares: dict[str, Share] = {}

    def is_heard(self, member: str, sent_at: float) -> None:
        """The coordinator has answered, as to a member, what was sent then."""
        share = self._shares.setdefault(member, Share())
        share.heard_at = max(share.heard_at, sent_at)

    def takes(self, member: str, partition: PartitionId) -> None:
        now = self._oracle.now()
        for other, share in self._shares.items():
            is_alive = share.heard_at > now - self._expires_s
            if other != member and partition in share.owned:
                if is_alive and not self._oracle.is_excused(self.offsets, share.heard_at - self._expires_s):
                    self._oracle.complain(
                        f"{member} of {self._group} was given {self._oracle.name(partition)}, which {other} has not "
                        f"given back, and {other} was heard at {share.heard_at:.3f} s"
                    )
                share.owned.discard(partition)
        self._shares.setdefault(member, Share()).owned.add(partition)
        self._oracle.counts["partitions given to members"] += 1

    def releases(self, member: str, partition: PartitionId) -> None:
        """Before the coordinator is told of it."""
        if member in self._shares:
            self._shares[member].owned.discard(partition)

    def others(self, member: str, partition: PartitionId) -> str | None:
        """Who else owns it now."""
        for other, share in self._shares.items():
            if other != member and partition in share.owned:
                return other
        return None
