"""`ottla sim coverage`."""

from __future__ import annotations

import sys

import click

from ottla.cli.output import note, output_option, print_rows
from ottla.cli.sim.options import FAILED, how_options, seeds_options, variation


@click.command("coverage")
@seeds_options
@how_options
@output_option
def command(seeds: int, first: int, jobs: int, intensity: str, storm_s: float, output: str | None) -> None:
    """Run seeds, and count which of them saw what: elections, truncations, each kind of fault, each error code."""
    from ottla.cli.sim.running import run_seeds
    from ottla.cli.sim.table import COVERAGE
    from ottla.sim.cluster.coverage import unseen

    how = variation(intensity, storm_s)
    summary = run_seeds(first, seeds, jobs, how, lambda report: note(report.text(how)))
    print_rows(output, COVERAGE, summary.rows())
    if missing := unseen(summary.totals):
        note(f"No seed saw: {', '.join(missing)}.")
    if missing or summary.failed:
        sys.exit(FAILED)
