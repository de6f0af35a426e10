"""`ottla group`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "list": ("ottla.cli.group.list", "List the groups, all or by state and type."),
    "describe": ("ottla.cli.group.describe", "Show offsets and lag of groups by partition, or their states."),
    "members": ("ottla.cli.group.members", "Show who is in groups, and which partitions each has."),
    "lag": ("ottla.cli.group.lag", "Sum up how far groups are behind, for people and scripts."),
    "why": ("ottla.cli.group.why", "Say why a group rebalanced, who caused it, and what to do."),
    "watch": ("ottla.cli.group.watch", "Watch groups live: lag, rate, and when they will have caught up."),
    "reset": ("ottla.cli.group.reset", "Set the offsets of groups to a beginning, an end, a time or a number."),
    "seek": ("ottla.cli.group.seek", "Set a group's offset in one topic, at once."),
    "delete": ("ottla.cli.group.delete", "Delete groups, or their offsets of some topics."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """List, describe, watch, explain, reset and delete consumer groups."""
