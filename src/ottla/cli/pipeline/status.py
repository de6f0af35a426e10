"""`ottla pipeline status`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ottla.cli.output import Column, note, output_option, print_rows, print_value
from ottla.cli.pipeline.spec_argument import checkpoint_of, checkpoint_option, loaded, spec_argument


@click.command()
@spec_argument
@checkpoint_option
@output_option
def command(file: Path, checkpoint: str | None, output: str | None) -> None:
    """Show whether a pipeline runs, and how it is doing: rates, lag, batch time, state."""
    spec = loaded(file)
    found = checkpoint_of(spec, checkpoint).status()
    if found is None:
        note(f"{spec.name} has not run yet")
        return
    if output in ("json", "yaml"):
        print_value(output, found)
        return
    ago = max(time.time() - found["at"], 0)
    where = f"process {found['pid']} on {found['host']}, "
    note(f"{spec.name}: {found['state']} ({where}told {ago:.0f} s ago)")
    if found["error"]:
        note(found["error"])
    columns = (
        Column("STEP", "view"),
        Column("BATCH", "batch"),
        Column("ROWS", "rows"),
        Column("ROWS/S", lambda row: f"{row['rows_per_second']:.0f}"),
        Column("BATCH-MS", "batch_ms"),
        Column("BEHIND", "behind"),
        Column("STATE-ROWS", "state_rows"),
        Column("STATE-BYTES", "state_bytes"),
    )
    print_rows(output, columns, list(found["queries"].values()))
