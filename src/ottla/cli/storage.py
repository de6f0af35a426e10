"""`ottla storage`: ids, and formatting folders before the first start of a node."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.groups import SuggestingGroup
from ottla.cli.output import note


@click.group(cls=SuggestingGroup)
def command() -> None:
    """Prepare the folders of a node. (`ottla up` does so by itself.)"""


@command.command("random-uuid")
def random_uuid() -> None:
    """Print a new id for a cluster."""
    import random

    from ottla.env.randomness import SeededRandom
    from ottla.model.ids import random_uuid as make
    from ottla.model.ids import uuid_text

    click.echo(uuid_text(make(SeededRandom(random.SystemRandom()))))


@command.command("format")
@click.option("-t", "--cluster-id", required=True, help="The same for all nodes of a cluster.")
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), required=True, help="A server.properties.")
@click.option("--standalone", is_flag=True, help="As Kafka's tool has it; here a node is always formatted like that.")
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave folders that are formatted as they are.")
def format_storage(cluster_id: str, file: Path, standalone: bool, ignore_formatted: bool) -> None:
    """Format the folders that a server.properties names."""
    from ottla.cli.format_dirs import format_folders
    from ottla.model.config import broker_config, load_properties

    loaded = load_properties(file)
    config = broker_config(loaded.values, loaded.where)
    formatted = format_folders(config, cluster_id, ignore_formatted=ignore_formatted)
    for folder in formatted:
        note(f"Formatted {folder} for node {config.node_id} of cluster {cluster_id}.")
    if not formatted:
        note("All folders are formatted already.")
