"""`ottla sim replay`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ottla.cli.output import note, outcome_option, print_outcome
from ottla.cli.sim.options import FAILED, how_options, part_options, variation


@click.command("replay")
@click.argument("seed", type=click.IntRange(0))
@how_options
@part_options
@click.option("--trace", type=click.Path(path_type=Path, dir_okay=False), help="Write all that happened to a file.")
@outcome_option
def command(
    seed: int,
    intensity: str,
    storm_s: float,
    faults: tuple[str, ...] | None,
    workloads: tuple[str, ...] | None,
    until_s: float | None,
    trace: Path | None,
    output: str | None,
) -> None:
    """Run one seed again, and tell what happened: the same, however often."""
    from ottla.sim.cluster.many import one

    how = variation(intensity, storm_s, faults, workloads, until_s)
    report = one(seed, how, None if trace is None else str(trace))
    done = {
        "seed": seed,
        "violations": report.violations,
        "virtual_s": round(report.virtual_s, 3),
        "counts": dict(sorted(report.counts.items())),
    }
    if output is None and report.violations:
        note(f"{report.timeline}\n{report.text(how)}")
    else:
        told = f"Seed {seed}: nothing promised was broken in {report.virtual_s:.1f} virtual s."
        print_outcome(output, done, told)
    if report.violations:
        sys.exit(FAILED)
