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
from ottla.model.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.cli.admin.reassignments import Move
    from ottla.cli.admin.session import Refusal, Session
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
    over = {row["topic"] for row in rows if not row["refused"]}
    if not keep_throttles and over:
        from ottla.cli.reassign.watching import unthrottle

        unthrottle(cluster, over)
    if any(row["refused"] for row in rows):
        sys.exit(1)


async def _cancel(there: Session, scopes: Sequence[Scope], path: str | None) -> list[dict[str, Any]]:
    from ottla.cli.admin import reassignments

    under_way = await reassignments.moves(there, await _meant(there, scopes, path))
    if not under_way:
        return []
    outcome = await reassignments.move(there, dict.fromkeys(under_way))
    return [_row(place, move, outcome.get(place)) for place, move in sorted(under_way.items())]


def _row(place: TopicPartition, move: Move, refusal: Refusal | None) -> dict[str, Any]:
    has_ended = refusal is not None and refusal.code is ErrorCode.no_reassignment_in_progress
    told = "it had ended before" if has_ended else "cancelled" if refusal is None else str(refusal)
    return {
        "topic": place.topic,
        "partition": place.partition,
        "replicas": list(move.target) if has_ended else [each for each in move.replicas if each not in move.adding],
        "cancelled": refusal is None,
        "refused": refusal is not None and not has_ended,
        "outcome": told,
    }


async def _meant(there: Session, scopes: Sequence[Scope], path: str | None) -> Sequence[TopicPartition] | None:
    if path is not None:
        from ottla.cli.reassign.file import read

        return list(read(path).replicas)
    if not scopes:
        return None
    from ottla.cli.admin import topics

    found = await topics.topics(there, list(dict.fromkeys(scope.topic for scope in scopes)))
    return partitions_in(scopes, found)
