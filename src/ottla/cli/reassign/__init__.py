"""`ottla reassign`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "plan": ("ottla.cli.reassign.plan", "Propose where partitions should be: balanced, with the fewest moves."),
    "run": ("ottla.cli.reassign.run", "Move partitions as a file says, and show how far it is."),
    "watch": ("ottla.cli.reassign.watch", "Watch the moves that are under way until they are done."),
    "cancel": ("ottla.cli.reassign.cancel", "Cancel moves that are under way."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Move partitions between brokers."""
