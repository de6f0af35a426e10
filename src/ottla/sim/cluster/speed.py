"""How much faster than real time: three combined nodes, the workloads that each seed draws, moderate faults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from time import process_time
from typing import Final, NamedTuple

from ottla.sim.cluster.plan import COMBINED, Plan
from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.variation import Intensity, Variation

_MEASURED: Final = Variation(Intensity.MODERATE)


class Speed(NamedTuple):
    """One core's, as it is the processor's time that counts."""

    seed: int
    virtual_s: float
    cpu_s: float
    faults: int
    records: int
    """Acknowledged ones."""

    @property
    def times(self) -> float:
        return self.virtual_s / self.cpu_s


def measure(first: int, seeds: int) -> Iterator[Speed]:
    import ottla.sim.cluster.warmed_up  # noqa: F401  # as in the processes of many seeds

    for seed in range(first, first + seeds):
        plan = replace(Plan.drawn(Random(f"{seed}/plan")), shape=COMBINED)
        began = process_time()
        outcome = run(seed, _MEASURED, plan=plan)
        took = process_time() - began
        acknowledged = outcome.counts["records acknowledged"]
        yield Speed(seed, outcome.virtual_s, took, outcome.counts["faults"], acknowledged)
