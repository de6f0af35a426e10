"""`ottla perf`: how fast a cluster is, seen from here."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "produce": ("ottla.cli.perf.produce", "How many records a second can be written, and how long each takes."),
    "consume": ("ottla.cli.perf.consume", "How many records a second can be read."),
    "e2e": ("ottla.cli.perf.e2e", "How long a record takes from a producer to a consumer."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Measure a cluster: writing, reading, and the way from one to the other."""
