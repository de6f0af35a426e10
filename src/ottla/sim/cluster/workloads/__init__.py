"""What clients do in a simulated cluster; see workload.py for how to add something."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final, NamedTuple

from ottla.sim.cluster.transactions.bank import Bank
from ottla.sim.cluster.workload import Workload
from ottla.sim.cluster.workloads.changes import Changes
from ottla.sim.cluster.workloads.commits import Commits
from ottla.sim.cluster.workloads.groups import ClassicGroup, ConsumerGroup
from ottla.sim.cluster.workloads.records import Records
from ottla.sim.cluster.workloads.tables import Tables
from ottla.sim.cluster.workloads.tiers import Tiers
from ottla.sim.cluster.workloads.unheard import Unheard
from ottla.sim.cluster.workloads.upgrade import Upgrade
from ottla.sim.cluster.workloads.voters import Voters
from ottla.sim.cluster.workloads.windows import Windows


class Drawn(NamedTuple):
    """A workload, and how many of all seeds have it."""

    kind: type[Workload]
    share: float


WORKLOADS: Final[Mapping[str, Drawn]] = {
    drawn.kind.name: drawn
    for drawn in (
        Drawn(Records, 1.0),
        Drawn(Bank, 0.3),
        Drawn(Commits, 0.3),
        Drawn(ClassicGroup, 0.25),
        Drawn(ConsumerGroup, 0.25),
        Drawn(Changes, 0.4),
        Drawn(Tables, 0.3),
        Drawn(Windows, 0.3),
        Drawn(Voters, 0.8),
        Drawn(Upgrade, 1.0),
        Drawn(Tiers, 0.15),
        Drawn(Unheard, 0.05),
    )
}  # fmt: skip


def drawn_by(seed: int) -> tuple[str, ...]:
    """By name. Each is drawn by a number of its own: those that are added later leave the others as they were."""
    return tuple(name for name, (_, share) in WORKLOADS.items() if Random(f"{seed}/{name}").random() < share)
