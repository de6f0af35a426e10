"""What a run may be told beside its seed: how bad it gets, how long, and what is left out of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

RAGE_S = 50.0


class Intensity(Enum):
    CALM = "calm"
    MODERATE = "moderate"
    HOSTILE = "hostile"
    SWARM = "swarm"
    """Each seed draws how bad it gets. What goes wrong is drawn by the seed in any case."""


@dataclass(frozen=True, slots=True)
class Variation:
    intensity: Intensity = Intensity.SWARM
    rage_s: float = RAGE_S
    """How long things go wrong."""
    faults: tuple[int, ...] | None = None
    """Only these, by number; the others are left out, and change nothing of these."""
    workloads: tuple[str, ...] | None = None
    """Only these, instead of what the seed draws."""

    until_s: float | None = None
    """The storm ends then, whatever was still to come."""

    @property
    def ends_s(self) -> float:
        return self.rage_s if self.until_s is None else min(self.until_s, self.rage_s)

    @property
    def is_whole(self) -> bool:
        """Nothing that the seed draws is left out."""
        return self.faults is None and self.workloads is None and self.until_s is None

    @property
    def lasts_s(self) -> float:
        """A run goes on at least that long, healing included: a minute if nothing else is asked for."""
        return 1.2 * self.rage_s if self.until_s is None else 0.0

    @property
    def records(self) -> int:
        """So many are acknowledged, at least."""
        return int(20 * self.rage_s) if self.is_whole else 0

    def arguments(self) -> str:
        """What repeats it, after `ottla sim replay SEED`."""
        told = []
        if self.intensity is not Intensity.SWARM:
            told.append(f"--intensity {self.intensity.value}")
        if self.rage_s != RAGE_S:
            told.append(f"--storm {self.rage_s:g}")
        if self.faults is not None:
            told.append(f"--faults {','.join(map(str, self.faults)) or 'none'}")
        if self.workloads is not None:
            told.append(f"--workloads {','.join(self.workloads) or 'none'}")
        if self.until_s is not None:
            told.append(f"--until {self.until_s:g}")
        return " ".join(told)


AS_DRAWN = Variation()
