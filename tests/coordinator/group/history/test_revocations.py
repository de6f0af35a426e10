"""Members of the consumer protocol that are to give up partitions: who is blamed for what, and who is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from ottla.coordinator.group.events import (
    Cause,
    EpochBumped,
    Event,
    GroupReconciled,
    MemberJoined,
    Partitions,
    RevocationAcknowledged,
    RevocationAsked,
    RevocationMissed,
    TargetComputed,
)
from ottla.coordinator.group.history.coding import decode
from ottla.coordinator.group.history.entries import Incident, Rebalance
from ottla.coordinator.group.history.finding import Finding, Kind
from ottla.coordinator.group.history.findings import findings
from ottla.coordinator.group.history.historian import Historian
from ottla.coordinator.group.history.rebalances import Topics

G: Final = "g"
POLL_MS: Final = 45_000


class Line:
    peer = "10.0.0.1:1000"


class World:
    """A group of two: `old` has all six partitions, `new` has just joined and waits for three of them."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.historian = Historian(lambda: self.now, Topics(str, lambda name: 6))
        self.line = Line()
        self.records: dict[bytes, bytes | None] = {}
        self.join("old", 2, {"old": {"orders": range(6)}})
        self.historian.heard(G, "old", self.line)
        self.note(GroupReconciled(self.now, G, 2, 1))
        self.wait(60_000)
        self.join("new", 3, {"old": {"orders": range(3)}, "new": {"orders": range(3, 6)}})
        self.note(RevocationAsked(self.now, G, 3, "old", {"orders": [3, 4, 5]}))

    def join(self, who: str, epoch: int, targets: Mapping[str, Partitions]) -> None:
        self.note(MemberJoined(self.now, G, epoch, who, None, who, "/10.0.0.1", None, POLL_MS, POLL_MS, ("orders",)))
        self.note(EpochBumped(self.now, G, epoch, Cause.MEMBER_JOINED, (who,)))
        self.note(TargetComputed(self.now, G, epoch, "uniform", targets, 0))

    def note(self, event: Event) -> None:
        self.historian.note(event)

    def wait(self, ms: int, *, commits: bool = False) -> None:
        end = self.now + ms
        while self.now < end:
            self.now = min(self.now + 3000, end)
            (self.historian.committed if commits else self.historian.heard)(G, "old", self.line)

    def findings(self) -> dict[Kind, Finding]:
        for _, records in self.historian.think():
            self.records.update(records)
        told = [decode(value) for value in self.records.values() if value is not None]
        entries = [entry for entry in told if isinstance(entry, Rebalance | Incident)]
        return {finding.kind: finding for finding in findings(entries, 0)}


@pytest.mark.parametrize(
    ("commits", "kind"), [(True, Kind.HELD_ON), (False, Kind.POLL_INTERVAL)], ids=["it commits", "it is silent"]
)
def test_one_that_gives_up_nothing(commits: bool, kind: Kind) -> None:
    """One that goes on committing has called poll(): that it took too long for that is then not said of it."""
    world = World()
    world.wait(POLL_MS, commits=commits)
    world.note(RevocationMissed(world.now, G, 3, "old", None, "old", POLL_MS))
    world.note(EpochBumped(world.now, G, 4, Cause.MEMBER_EXPIRED, ("old",)))
    world.note(GroupReconciled(world.now, G, 4, 1))
    found = world.findings()
    assert found.keys() - {Kind.STARTED, Kind.SCALED_UP} == {kind}
    assert found[kind].members == ["old"] and not found[kind].is_certain


def test_only_who_is_waited_for_is_slow() -> None:
    world = World()
    world.wait(20_000, commits=True)
    world.note(RevocationAcknowledged(world.now, G, 3, "old", {"orders": [3, 4, 5]}))
    world.note(GroupReconciled(world.now, G, 3, 2))
    slow = world.findings()[Kind.SLOW_REJOIN]
    assert slow.members == ["old"] and "gave up" in slow.summary
