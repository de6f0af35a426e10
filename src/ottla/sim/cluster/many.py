"""Runs of many seeds, in several processes, and what they saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import monotonic

from ottla.sim.cluster.scenario import run

SEEN = (
    "elections", "ISR shrinks", "ISR expansions", "truncations", "snapshot loads", "controllers", "records excused",
)  # fmt: skip


@dataclass(slots=True)
class Report:
    seed: int
    violations: list[str]
    counts: Counter[str]
    virtual_s: float
    text: str


def one(seed: int, trace: str | None = None) -> Report:
    outcome = run(seed)
    if trace is not None:
        Path(trace).write_text(str(outcome.trace))
    return Report(seed, outcome.violations, outcome.counts, outcome.virtual_s, outcome.report())


def many(first: int, seeds: int, jobs: int) -> Iterator[Report]:
    left = iter(range(first, first + seeds))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=50) as pool:
        running: set[Future[Report]] = {pool.submit(one, seed) for seed in islice(left, 2 * jobs)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {pool.submit(one, seed) for seed in islice(left, len(done))}
            yield from (each.result() for each in done)


class Summary:
    def __init__(self) -> None:
        self.seeds = 0
        self.failed: list[int] = []
        self.virtual_s = 0.0
        self.totals: Counter[str] = Counter()
        self.saw: Counter[str] = Counter()
        self.least: dict[str, float] = {}
        self._began = monotonic()

    def add(self, report: Report) -> None:
        self.seeds += 1
        self.virtual_s += report.virtual_s
        self.totals += report.counts
        # the first controller of a cluster says nothing
        self.saw.update(name for name in SEEN if report.counts[name] > (name == "controllers"))
        if report.violations:
            self.failed.append(report.seed)
        for name, value in (
            ("virtual s", report.virtual_s),
            ("faults", report.counts["faults"]),
            ("records acknowledged", report.counts["records acknowledged"]),
        ):
            self.least[name] = min(value, self.least.get(name, value))

    def line(self) -> str:
        took = monotonic() - self._began
        return (
            f"{self.seeds} seeds, {len(self.failed)} failed; {self.virtual_s:,.0f} virtual s in {took:,.0f} s "
            f"({self.virtual_s / took:.1f} times faster than time)"
        )

    def __str__(self) -> str:
        least = ", ".join(f"{value:,.0f} {name}" for name, value in self.least.items())
        saw = "\n".join(f"  {self.saw[name]:>6} {name} ({self.totals[name]:,} in all)" for name in SEEN)
        faults = sorted(name for name in self.totals if name.startswith("fault: "))
        told = ", ".join(f"{name.removeprefix('fault: ')} {self.totals[name]}" for name in faults)
        return f"{self.line()}\nat least, each: {least}\nseeds that saw\n{saw}\nfaults: {told}"
