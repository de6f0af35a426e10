"""Makes a failing run smaller: fewer workloads, fewer faults, a shorter storm, as long as the same thing goes wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from ottla.sim.cluster import workloads
from ottla.sim.cluster.many import Report, one
from ottla.sim.cluster.variation import Variation

T = TypeVar("T")
_SHORTEST_S = 0.5


@dataclass(frozen=True, slots=True)
class Shrunk:
    variation: Variation
    report: Report
    runs: int


def shrink(
    seed: int,
    variation: Variation,
    tell: Callable[[str], None] = lambda text: None,
    run: Callable[[int, Variation], Report] = one,
) -> Shrunk | None:
    """None if the seed does not fail."""
    first = run(seed, variation)
    if not first.violations:
        return None
    search = _Search(seed, variation, first, tell, run)
    search.fewer_workloads()
    search.fewer_faults()
    search.shorter()
    return Shrunk(search.variation, search.report, search.runs)


class _Search:
    def __init__(
        self,
        seed: int,
        variation: Variation,
        report: Report,
        tell: Callable[[str], None],
        run: Callable[[int, Variation], Report],
    ) -> None:
        self.variation = variation
        self.report = report
        self.runs = 1
        self._seed = seed
        self._run = run
        self._tell = tell
        self._wanted = kind_of(report.violations[0])

    def _fails(self, variation: Variation) -> bool:
        report = self._run(self._seed, variation)
        self.runs += 1
        if all(kind_of(violation) != self._wanted for violation in report.violations):
            return False
        self.variation, self.report = variation, report
        self._tell(f"{self.runs} runs, still failing: {report.replay(variation)}")
        return True

    def fewer_workloads(self) -> None:
        kept = self.variation.workloads
        if kept is None:
            kept = workloads.drawn_by(self._seed)
        for name in kept:
            fewer = tuple(other for other in self.variation.workloads or kept if other != name)
            self._fails(replace(self.variation, workloads=fewer))

    def fewer_faults(self) -> None:
        """Halves first, then ever smaller pieces (delta debugging)."""
        kept = self.variation.faults
        if kept is None:
            kept = tuple(range(self.report.counts["faults"]))
        size = len(kept)
        while kept and size >= 1:
            for piece in _pieces(kept, size):
                fewer = tuple(number for number in kept if number not in piece)
                if fewer != kept and self._fails(replace(self.variation, faults=fewer)):
                    kept = fewer
            size //= 2

    def shorter(self) -> None:
        until_s = self.variation.ends_s
        while until_s > _SHORTEST_S:
            until_s /= 2
            if not self._fails(replace(self.variation, until_s=round(until_s, 2))):
                break


def kind_of(violation: str) -> str:
    """What is wrong, without who, where and when: the first words, numbers left out."""
    text = violation.partition(" s: ")[2]
    return " ".join(re.sub(r"\S*\d\S*", "#", text).split()[:5])


def _pieces(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
