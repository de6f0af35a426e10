"""Committed offsets behave as a register: what is found is what was acknowledged last, or what nobody knows of yet."""

from __future__ import annotations

from ottla.sim.cluster.oracle import Oracle
from ottla.sim.log_files import PartitionId

NOTHING = -1


class OffsetRegister:
    """Of one group and one partition, written by one client at a time."""

    def __init__(self, oracle: Oracle, name: str, offsets: PartitionId) -> None:
        self._oracle = oracle
        self._name = name
        self._offsets = offsets
        """The partition in which the coordinator keeps it."""
        self.kept = NOTHING
        self._kept_since = 0.0
        self._earlier = {NOTHING}
        self._maybe: set[int] = set()  # nobody knows of these, and one may be carried out late

    def asks(self, offset: int) -> None:
        self._maybe.add(offset)

    def acknowledged(self, offset: int, since: float) -> None:
        """`since` is when it was asked for: a loss after that may have taken it."""
        self._oracle.counts["offsets committed"] += 1
        self._maybe.discard(offset)
        self._earlier.add(self.kept)
        self.kept, self._kept_since = offset, since

    def finds(self, offset: int, who: str) -> None:
        self._oracle.counts["committed offsets found"] += 1
        if offset == self.kept or offset in self._maybe:
            return
        if self._oracle.is_excused(self._offsets, self._kept_since) and offset in self._earlier:
            self.kept, self._kept_since = offset, self._oracle.now()
            self._oracle.counts["committed offsets lost with the power"] += 1
            return
        self._oracle.complain(
            f"{who} finds {offset} committed for {self._name}; {self.kept} was acknowledged, asked for at "
            f"{self._kept_since:.3f} s, and {sorted(self._maybe)} may be"
        )
