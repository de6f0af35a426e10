"""`ottla config`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "get": ("ottla.cli.config.get", "Show configs in force, where they come from and what they override."),
    "set": ("ottla.cli.config.set", "Set configs of a topic, a broker, all brokers, loggers, a group."),
    "unset": ("ottla.cli.config.unset", "Take configs back, so that what they override counts again."),
    "explain": ("ottla.cli.config.explain", "Say what a config does, what it may be, and where its value comes from."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Show, change and explain configs."""
