"""`ottla dlq`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "show": ("ottla.cli.dlq.show", "Show dead letters: what, from where, and why."),
    "replay": ("ottla.cli.dlq.replay", "Write dead letters to where they came from, or elsewhere."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Look at records that pipelines have put aside, and send them on their way again."""
