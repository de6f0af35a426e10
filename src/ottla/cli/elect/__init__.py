"""`ottla elect`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "preferred": ("ottla.cli.elect.preferred", "Give partitions back to their first replica."),
    "unclean": ("ottla.cli.elect.unclean", "Let a replica lead that may miss records, where no other lives."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Elect leaders of partitions."""
