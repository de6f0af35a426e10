"""`ottla topic list`."""

from __future__ import annotations

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, is_terminal, note, output_option, print_rows


@click.command("list")
@click.option("--internal", is_flag=True, help="Show the cluster's own topics too.")
@output_option
@cluster_options
def command(internal: bool, output: str | None, cluster: Cluster) -> None:
    """List the topics: a table on a terminal, otherwise one name a line."""
    from ottla.cli.admin import session, topics

    found = [topic for topic in session.run(cluster, topics.topics) if internal or not topic.internal]
    if output is None and not is_terminal():
        for topic in found:
            click.echo(topic.name)
        return
    if output is None and not found:
        note("There are no topics yet; `ottla topic create NAME` makes one.")
        return
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": topic.replication_factor,
            "internal": topic.internal,
        }
        for topic in found
    ]
    print_rows(
        output, (Column("TOPIC", "topic"), Column("PARTITIONS", "partitions"), Column("REPLICAS", "replicas")), rows
    )
