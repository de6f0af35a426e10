"""Runs many seeds with a line that tells how far they are."""

from __future__ import annotations

from collections.abc import Callable

from ottla.cli.progress import Progress
from ottla.sim.cluster.many import Report, Summary, many
from ottla.sim.cluster.variation import Variation


def run_seeds(first: int, seeds: int, jobs: int, variation: Variation, on_failure: Callable[[Report], None]) -> Summary:
    summary, progress = Summary(variation), Progress("seeds", total=seeds)
    try:
        for report in many(first, seeds, jobs, variation):
            summary.add(report)
            if report.violations:
                progress.end()
                on_failure(report)
            progress.tick(summary.seeds, f"{len(summary.failed)} failed")
    finally:
        progress.end()
    return summary
