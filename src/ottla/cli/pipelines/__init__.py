"""`ottla pipelines`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "serve": ("ottla.cli.pipelines.serve", "Run deployed pipelines, together with other workers."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Run what `ottla pipeline deploy` has put into the cluster."""
