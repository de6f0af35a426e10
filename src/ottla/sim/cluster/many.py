"""Runs of many seeds, in several processes, and what they saw."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Any, Final

from ottla.sim.cluster.coverage import coverage
from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.variation import AS_DRAWN, Variation

_A_FEW: Final = 50
_WARMED_UP: Final = "ottla.sim.cluster.warmed_up"
_A_PROCESS: Final = 10
"""Seeds. What a run leaves behind is not looked for while the next one runs, and is tens of megabytes."""


@dataclass(slots=True)
class Report:
    """What is left of a run: the trace is large."""

    seed: int
    violations: list[str]
    counts: Counter[str]
    virtual_s: float
    timeline: str

    def replay(self, variation: Variation = AS_DRAWN) -> str:
        """The command that repeats it."""
        return f"ottla sim replay {self.seed} {variation.arguments()}".rstrip()

    def text(self, variation: Variation = AS_DRAWN) -> str:
        listed = "\n".join(f"  - {violation}" for violation in self.violations[:20])
        return f"seed {self.seed} failed:\n{listed}\n  again: {self.replay(variation)}"


def one(seed: int, variation: Variation = AS_DRAWN, trace: str | None = None) -> Report:
    outcome = run(seed, variation)
    if trace is not None:
        Path(trace).write_text(str(outcome.trace))
    return Report(seed, outcome.violations, outcome.counts, outcome.virtual_s, outcome.timeline)


def many(first: int, seeds: int, jobs: int, variation: Variation = AS_DRAWN) -> Iterator[Report]:
    """As they end. A few in one job run here, which is easier to look into; worlds leave much behind in a process."""
    left = iter(range(first, first + seeds))
    work = partial(one, variation=variation)
    if jobs == 1 and seeds <= _A_FEW:
        for seed in left:
            yield work(seed)
            gc.collect()
        return
    context = get_context("forkserver")
    context.set_forkserver_preload([_WARMED_UP])
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=_A_PROCESS) as pool:
        running: set[Future[Report]] = {pool.submit(work, seed) for seed in islice(left, 2 * jobs)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(work, seed) for seed in islice(left, len(done))}
                yield from (each.result() for each in done)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


class Summary:
    def __init__(self, variation: Variation = AS_DRAWN) -> None:
        self.variation = variation
        self.seeds = 0
        self.failed: list[Report] = []
        self.virtual_s = 0.0
        self.totals: Counter[str] = Counter()
        self.saw: Counter[str] = Counter()
        self.least: dict[str, float] = {}
        self._began = monotonic()

    def add(self, report: Report) -> None:
        self.seeds += 1
        self.virtual_s += report.virtual_s
        self.totals += report.counts
        self.saw.update(name for name, count in report.counts.items() if count > 0)
        if report.violations:
            self.failed.append(report)
        for name, value in (
            ("virtual s", report.virtual_s),
            ("faults", report.counts["faults"]),
            ("records acknowledged", report.counts["records acknowledged"]),
        ):
            self.least[name] = min(value, self.least.get(name, value))

    def rows(self) -> list[dict[str, Any]]:
        return coverage(self.saw, self.totals)

    def line(self) -> str:
        took = monotonic() - self._began
        return (
            f"{self.seeds} seeds, {len(self.failed)} failed; {self.virtual_s:,.0f} virtual s in {took:,.0f} s "
            f"({self.virtual_s / took:.1f} times faster than time)"
        )

    def __str__(self) -> str:
        least = ", ".join(f"{value:,.0f} {name}" for name, value in self.least.items())
        mean = self.totals["faults"] / max(self.seeds, 1)
        return f"{self.line()}\neach at least {least}; {mean:.1f} faults on average"

    def values(self) -> dict[str, Any]:
        """For programs."""
        took = monotonic() - self._began
        return {
            "seeds": self.seeds,
            "failed": [
                {"seed": each.seed, "violations": each.violations, "replay": each.replay(self.variation)}
                for each in self.failed
            ],
            "virtual_s": round(self.virtual_s, 3),
            "took_s": round(took, 3),
            "least": {name.replace(" ", "_"): value for name, value in self.least.items()},
            "coverage": self.rows(),
        }
