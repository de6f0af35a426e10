"""`ottla topic`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "create": ("ottla.cli.topic.create", "Create a topic."),
    "list": ("ottla.cli.topic.list", "List the topics."),
    "describe": ("ottla.cli.topic.describe", "Show partitions, replicas, offsets and configs of topics."),
    "alter": ("ottla.cli.topic.alter", "Add partitions to a topic, or change its configs."),
    "table": ("ottla.cli.topic.table", "Show the newest value of each key."),
    "compact": ("ottla.cli.topic.compact", "Show how clean a compacted topic is, or compact it now."),
    "purge": ("ottla.cli.topic.purge", "Delete records of a topic, but not the topic."),
    "clone": ("ottla.cli.topic.clone", "Make a topic like another one, with its records if wanted."),
    "delete": ("ottla.cli.topic.delete", "Delete topics and all their records."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Create, list, describe, change, compact, empty, copy and delete topics."""
