"""`ottla sim speed`."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.output import Column, note, output_option, print_rows

COLUMNS: Final = (
    Column("SEED", "seed"),
    Column("VIRTUAL S", "virtual_s"),
    Column("CPU S", "cpu_s"),
    Column("TIMES", "times"),
    Column("FAULTS", "faults"),
    Column("RECORDS", "records"),
)


@click.command("speed")
@click.option("-n", "--seeds", type=click.IntRange(1), default=8, show_default=True, help="How many.")
@click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="The first seed.")
@output_option
def command(seeds: int, first: int, output: str | None) -> None:
    """Run seeds with three nodes and moderate faults, on one core: virtual seconds for each second of the processor."""
    from ottla.sim.cluster.speed import measure

    speeds = list(measure(first, seeds))
    rows = [
        {
            "seed": each.seed,
            "virtual_s": round(each.virtual_s, 1),
            "cpu_s": round(each.cpu_s, 2),
            "times": round(each.times, 1),
            "faults": each.faults,
            "records": each.records,
        }
        for each in speeds
    ]
    print_rows(output, COLUMNS, rows)
    virtual_s, cpu_s = sum(each.virtual_s for each in speeds), sum(each.cpu_s for each in speeds)
    note(f"{virtual_s:,.0f} virtual s in {cpu_s:,.1f} s: {virtual_s / cpu_s:.1f} times faster than real time.")
