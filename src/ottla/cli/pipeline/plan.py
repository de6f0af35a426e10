"""`ottla pipeline plan`."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.choices import Choice
from ottla.cli.output import Column, output_option, print_rows
from ottla.cli.pipeline.spec_argument import loaded, spec_argument


@click.command()
@spec_argument
@click.option("--as", "form", type=Choice(("text", "mermaid")), default="text", show_default=True, help="How to draw.")
@output_option
def command(file: Path, form: str, output: str | None) -> None:
    """Draw what flows from where to where: sources, steps, sinks, dead letters."""
    from ottla.pipeline import picture

    spec = loaded(file)
    if output is not None:
        columns = (Column("PART", "part"), Column("NAME", "name"), Column("FROM", "from"), Column("WHAT", "what"))
        print_rows(output, columns, picture.rows(spec))
        return
    for line in picture.lines(spec) if form == "text" else picture.mermaid(spec):
        click.echo(line)
