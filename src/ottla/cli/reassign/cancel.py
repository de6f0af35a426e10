"""`ottla reassign cancel`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, count, note, output_option, print_rows
from ottla.cli.reassign.options import keep_throttles_option
from ottla.cli.scope import Scope, ScopeType, partitions_in

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.model.names import TopicPartition

COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("REPLICAS", "replicas"),
    Column("OUTCOME", "outcome"),
)


@click.command("cancel")
@click.argument("scopes", nargs=-1, type=ScopeType(), metavar="TOPIC[:N,...]...")
@click.option("-a", "--all", "everything", is_flag=True, help="All moves that are under way.")
@click.option("-f", "--file", "path", help="Those of the partitions in a file.")
@keep_throttles_option
@output_option
@cluster_options
def command(
    scopes: tuple[Scope, ...],
    everything: bool,
    path: str | None,
    keep_throttles: bool,
    output: str | None,
    cluster: Cluster,
) -> None:
    """Cancel moves that are under way: partitions go back to the replicas that they had, and copies are thrown away."""
    from ottla.cli.admin import session

    if bool(scopes) + everything + (path is not None) != 1:
        raise click.UsageError("which moves? Give one of TOPIC[:PARTITION,...], --file and --all")
    rows = session.run(cluster, lambda there: _cancel(there, scopes, path))
    if rows or output is not None:
        print_rows(output, COLUMNS, rows)
    cancelled = sum(row["cancelled"] for row in rows)
    note(f"Cancelled {count(cancelled, 'move')}." if rows else "None of them is being moved.")
    if not keep_throttles and cancelled:
        from ottla.cli.reassign.watching import unthrottle

        unthrottle(cluster, {row["topic"] for row in rows})
    if cancelled < len(rows):
        sys.exit(1)


async def _cancel(there: Session, scopes: Sequence[Scope], path: str | None) -> list[dict[str, Any]]:
    from ottla.cli.admin import reassignments

    under_way = await reassignments.moves(there, await _meant(there, scopes, path))
    if not under_way:
        return []
    outcome = await reassignments.move(there, dict.fromkeys(under_way))
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": [broker for broker in move.replicas if broker not in move.adding],
            "cancelled": outcome.get(place) is None,
            "outcome": "cancelled" if outcome.get(place) is None else str(outcome[place]),
        }
        for place, move in sorted(under_way.items())
    ]


async def _meant(there: Session, scopes: Sequence[Scope], path: str | None) -> Sequence[TopicPartition] | None:
    if path is not None:
        from ottla.cli.reassign.file import read

        return list(read(path).replicas)
    if not scopes:
        return None
    from ottla.cli.admin import topics

    found = await topics.topics(there, list(dict.fromkeys(scope.topic for scope in scopes)))
    return partitions_in(scopes, found)
