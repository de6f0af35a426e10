"""When something goes wrong, and what: drawn before anything does, so that faults can be left out one by one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from ottla.sim.cluster.variation import Intensity

_HOW_MANY: Final = {
    Intensity.CALM: (5, 7),
    Intensity.MODERATE: (8, 14),
    Intensity.HOSTILE: (20, 35),
}
AT_LEAST: Final = 5


class Planned(NamedTuple):
    number: int
    at_s: float
    kind: str


def draw(random: Random, intensity: Intensity, kinds: Sequence[str], for_s: float) -> list[Planned]:
    """Each seed has its own mix: some kinds never, some often."""
    weights = [random.choice((0, 1, 1, 3)) for _ in kinds]
    if not any(weights):
        weights[0] = 1
    if intensity is Intensity.SWARM:
        intensity = random.choices(list(_HOW_MANY), (2, 4, 1))[0]
    pace = for_s / random.randint(*_HOW_MANY[intensity])
    planned: list[Planned] = []
    at_s = random.uniform(0.2, 1.8) * pace
    while at_s < for_s or len(planned) < AT_LEAST:
        planned.append(Planned(len(planned), min(at_s, for_s), random.choices(kinds, weights)[0]))
        at_s += random.uniform(0.2, 1.8) * pace
    return planned
