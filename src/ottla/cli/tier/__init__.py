"""`ottla tier`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "status": ("ottla.cli.tier.status", "What of which topic is in the remote tier, and how far copying is behind."),
    "ls": ("ottla.cli.tier.ls", "List the segments in the remote tier."),
    "verify": ("ottla.cli.tier.verify", "Check that the store has what it should have, and nothing else."),
    "cost": ("ottla.cli.tier.cost", "What the remote tier costs a month, from given prices."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Look at the remote tier: what is in the object store, and whether it is whole."""
