"""`ottla node list`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.node.asking import data_option
from ottla.cli.output import Column, output_option, print_rows
from ottla.cli.progress import bytes_text

ASK_WITHIN_S: Final = 10.0


def _span(row: Mapping[str, Any]) -> str:
    from ottla.cli.supervise.screen import span

    return "-" if row["for_s"] is None else span(row["for_s"])


COLUMNS: Final = (
    Column("NODE", "node"),
    Column("ROLES", "roles"),
    Column("STATE", "state"),
    Column("FOR", _span),
    Column("PID", "pid"),
    Column("ADDRESS", "address"),
    Column("MEMORY", lambda row: "-" if row["bytes"] is None else bytes_text(row["bytes"])),
)


@click.command("list")
@data_option
@output_option
def command(folder: Path, output: str | None) -> None:
    """List the nodes of a data folder: whether they run, since when, and where.

    How the cluster sees its nodes, wherever they run, is shown by `ottla cluster nodes`.
    """
    from ottla.cli.supervise.control import ask

    print_rows(output, COLUMNS, ask(folder.absolute(), "list", None, ASK_WITHIN_S)["nodes"])
