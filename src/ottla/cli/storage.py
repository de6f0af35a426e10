"""`ottla storage`: ids, and formatting folders before the first start of a node."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.groups import SuggestingGroup
from ottla.cli.output import outcome_option, print_outcome


@click.group(cls=SuggestingGroup)
def command() -> None:
    """Prepare the folders of a node. (`ottla up` does so by itself.)"""


@command.command("random-uuid")
@outcome_option
def random_uuid(output: str | None) -> None:
    """Print a new id for a cluster."""
    import random

    from ottla.env.randomness import SeededRandom
    from ottla.model.ids import random_uuid as make
    from ottla.model.ids import uuid_text

    cluster_id = uuid_text(make(SeededRandom(random.SystemRandom())))
    if output is None:
        click.echo(cluster_id)
    else:
        print_outcome(output, {"cluster_id": cluster_id})


@command.command("format")
@click.option("-t", "--cluster-id", required=True, help="The same for all nodes of a cluster.")
@click.option("-c", "--config", "file", type=click.Path(path_type=Path), required=True, help="A server.properties.")
@click.option("-s", "--standalone", is_flag=True, help="The quorum begins with this controller as its only voter.")
@click.option(
    "-I",
    "--initial-controllers",
    "initial",
    metavar="LIST",
    help="The voters that the quorum begins with: id@host:port:directory, separated by commas; the same for all nodes.",
)
@click.option(
    "-N",
    "--no-initial-controllers",
    "none_initially",
    is_flag=True,
    help="The quorum is there, or others begin it; this node will learn of it.",
)
@click.option(
    "--cores", type=click.IntRange(1, 1024), default=1, show_default=True,
    help="The folders of so many nodes, as `ottla broker --cores` runs them.",
)  # fmt: skip
@click.option("-g", "--ignore-formatted", is_flag=True, help="Leave folders that are formatted as they are.")
@outcome_option
def format_storage(
    cluster_id: str,
    file: Path,
    standalone: bool,
    initial: str | None,
    none_initially: bool,
    cores: int,
    ignore_formatted: bool,
    output: str | None,
) -> None:
    """Format the folders that a server.properties names."""
    from ottla.cli.cores import check_addresses, for_core
    from ottla.cli.format_dirs import chosen_voters, folders, format_folders
    from ottla.model.config import broker_config, load_properties

    loaded = load_properties(file)
    if cores > 1:
        check_addresses(loaded.values, cores)
    rows, told = [], []
    for core in range(cores):
        values = loaded.values if cores == 1 else for_core(loaded.values, core)
        config = broker_config(values, loaded.where)
        voters = None
        if core == 0:  # the others are brokers only
            voters = chosen_voters(config, standalone=standalone, none_initially=none_initially, initial=initial)
        formatted = format_folders(config, cluster_id, voters=voters, ignore_formatted=ignore_formatted)
        rows += [
            {"folder": folder, "node_id": config.node_id, "cluster_id": cluster_id, "formatted": folder in formatted}
            for folder in folders(config)
        ]
        told += [f"Formatted {folder} for node {config.node_id} of cluster {cluster_id}." for folder in formatted]
    print_outcome(output, rows, *(told or ["All folders are formatted already."]))
