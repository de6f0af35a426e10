"""`ottla txn list`."""

from __future__ import annotations

import click

from ottla.cli.admin.transactions import STATES
from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.group.list import AnyOf
from ottla.cli.output import Column, is_terminal, note, output_option, print_rows
from ottla.cli.txn.spans import SpanType


@click.command("list")
@click.option("-s", "--state", "states", type=AnyOf(STATES), default=(), help="Only those in these states.")
@click.option("--longer-than", type=SpanType(), help="Only those whose transaction began so long ago: 90s, 5m, 1h.")
@output_option
@cluster_options
def command(states: tuple[str, ...], longer_than: int | None, output: str | None, cluster: Cluster) -> None:
    """List transactional ids: a table on a terminal, otherwise one a line."""
    from ottla.cli.admin import session, transactions

    longer_than_ms = -1 if longer_than is None else longer_than
    found = session.run(cluster, lambda there: transactions.list_ids(there, states, longer_than_ms))
    if output is None and not is_terminal():
        for each in found:
            click.echo(each.id)
        return
    if output is None and not found:
        note("There are no such transactional ids." if states or longer_than else "There are no transactional ids yet.")
        return
    rows = [
        {
            "transactional_id": each.id,
            "coordinator": each.coordinator,
            "producer_id": each.producer_id,
            "state": each.state,
        }
        for each in found
    ]
    columns = (
        Column("TRANSACTIONAL-ID", "transactional_id"),
        Column("COORDINATOR", "coordinator"),
        Column("PRODUCER-ID", "producer_id"),
        Column("STATE", "state"),
    )
    print_rows(output, columns, rows)
