"""`ottla sim run`."""

from __future__ import annotations

import sys

import click

from ottla.cli.output import note, outcome_option, print_rows, print_value
from ottla.cli.sim.options import FAILED, how_options, seeds_options, variation, workloads_option


@click.command("run")
@seeds_options
@how_options
@workloads_option
@outcome_option
def command(
    seeds: int,
    first: int,
    jobs: int,
    intensity: str,
    storm_s: float,
    workloads: tuple[str, ...] | None,
    output: str | None,
) -> None:
    """Run many seeds. One that fails is told with what it did and the command that repeats it."""
    from ottla.cli.sim.running import run_seeds
    from ottla.cli.sim.table import COVERAGE

    how = variation(intensity, storm_s, workloads=workloads)
    summary = run_seeds(first, seeds, jobs, how, lambda report: note(f"{report.text(how)}\n{report.timeline}"))
    if output is None:
        note(str(summary))
    elif output == "table":
        print_rows(output, COVERAGE, summary.rows())
    else:
        print_value(output, summary.values())
    if summary.failed:
        sys.exit(FAILED)
