"""What commands print: aligned columns for a person, tab-separated lines for a program."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click


def is_terminal() -> bool:
    return sys.stdout.isatty()


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """With a header and columns on a terminal; otherwise only the rows, one a line, separated by tabs."""
    texts = [[str(cell) for cell in row] for row in rows]
    if not is_terminal():
        for row in texts:
            click.echo("\t".join(row))
        return
    widths = [max(len(line[i]) for line in [list(header), *texts]) for i in range(len(header))]
    click.echo(click.style(_line(header, widths), bold=True))
    for row in texts:
        click.echo(_line(row, widths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def note(text: str) -> None:
    """For the person in front of the terminal, never in the way of the output itself."""
    click.echo(text, err=True)
