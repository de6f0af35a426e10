"""`ottla cluster`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "status": ("ottla.cli.cluster.status", "Say whether a cluster is well, and what is wrong with it."),
    "nodes": ("ottla.cli.cluster.nodes", "List the nodes: where they are, what they do, what they hold."),
    "quorum": ("ottla.cli.cluster.quorum", "Show who leads the metadata quorum, and how far its members are."),
    "remove-broker": ("ottla.cli.cluster.remove_broker", "Forget a broker that is stopped for good."),
    "add-controller": ("ottla.cli.cluster.add_controller", "Make a controller that runs a voter of the quorum."),
    "remove-controller": ("ottla.cli.cluster.remove_controller", "Take a controller out of the quorum's voters."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Look at a cluster as a whole: its state, its nodes, its metadata quorum."""
