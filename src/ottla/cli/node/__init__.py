"""`ottla node`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "list": ("ottla.cli.node.list", "List the nodes of a data folder: whether they run, and since when."),
    "stop": ("ottla.cli.node.stop", "Stop a node cleanly; its partitions go to others first."),
    "start": ("ottla.cli.node.start", "Start a node that was stopped, or has ended."),
    "restart": ("ottla.cli.node.restart", "Stop a node cleanly and start it again."),
    "kill": ("ottla.cli.node.kill", "Kill a node as by kill -9, to see what happens."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """List, stop, start, restart and kill single nodes of a cluster that `ottla up --brokers` runs here."""
