"""`ottla sim shrink`."""

from __future__ import annotations

import click

from ottla.cli.output import note, outcome_option, print_outcome
from ottla.cli.sim.options import how_options, part_options, variation


@click.command("shrink")
@click.argument("seed", type=click.IntRange(0))
@how_options
@part_options
@outcome_option
def command(
    seed: int,
    intensity: str,
    storm_s: float,
    faults: tuple[str, ...] | None,
    workloads: tuple[str, ...] | None,
    until_s: float | None,
    output: str | None,
) -> None:
    """Find out how little of a failing seed is needed: faults and steps are dropped while the same thing goes wrong."""
    from ottla.sim.cluster.shrink import shrink

    shrunk = shrink(seed, variation(intensity, storm_s, faults, workloads, until_s), note)
    if shrunk is None:
        print_outcome(output, {"seed": seed, "fails": False}, f"Seed {seed} does not fail: there is nothing to shrink.")
        return
    report, how = shrunk.report, shrunk.variation
    done = {
        "seed": seed,
        "fails": True,
        "runs": shrunk.runs,
        "violations": report.violations,
        "faults": report.counts["faults"],
        "replay": report.replay(how),
    }
    print_outcome(output, done, f"{report.timeline}\n{report.text(how)}")
