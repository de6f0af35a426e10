"""`ottla log`: looks into the files of a log, Ottla's or Apache Kafka's, and changes nothing."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "dump": ("ottla.cli.log.dump", "Print what is in the files of a partition: batches, records, indexes."),
    "verify": ("ottla.cli.log.verify", "Check the files of partitions: checksums, offsets, indexes."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Look into the files of a log, Ottla's or Apache Kafka's. Nothing is changed."""
