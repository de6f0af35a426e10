"""`ottla group lag`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import group_names, topic_names
from ottla.cli.group.names import chosen
from ottla.cli.output import Column, note, output_option, print_rows, print_value

if TYPE_CHECKING:
    from ottla.cli.admin.group_lag import Position, Progress

TOO_MUCH: Final = 3  # the exit code, unlike that of a cluster that does not answer
ALL_TOPICS: Final = "(all)"
COLUMNS: Final = (
    Column("GROUP", "group"),
    Column("STATE", "state"),
    Column("MEMBERS", "members"),
    Column("TOPIC", "topic"),
    Column("PARTITIONS", "partitions"),
    Column("LAG", "lag"),
    Column("LARGEST", lambda row: _largest(row)),
)


@click.command("lag")
@click.argument("groups", nargs=-1, metavar="[GROUP...]", shell_complete=group_names)
@click.option("-t", "--topic", "topics", multiple=True, shell_complete=topic_names, help="Only of this; repeatable.")
@click.option(
    "--fail-above", type=click.IntRange(min=0), metavar="N",
    help=f"End with exit code {TOO_MUCH} if a group is more than N records behind.",
)  # fmt: skip
@output_option
@cluster_options
def command(
    groups: tuple[str, ...], topics: tuple[str, ...], fail_above: int | None, output: str | None, cluster: Cluster
) -> None:
    """Sum up how many records groups are behind, by topic and in all; of all groups if none is named.

    LARGEST is the lag of the partition that is most behind, and which one that is.
    """
    from ottla.cli.admin import session
    from ottla.cli.admin.group_lag import progress

    async def ask(there: session.Session) -> list[Progress]:
        found = await progress(there, await chosen(there, groups), leave_out_missing=not groups)
        return [each._replace(positions=_of(each.positions, topics)) for each in found]

    found = session.run(cluster, ask)
    told = [_told(each) for each in found]
    if output in ("json", "yaml"):
        print_value(output, told)
    else:
        rows = [row for group in told for row in _rows(group)]
        if rows or output is not None:
            print_rows(output, COLUMNS, rows)
        else:
            note("There are no groups.")
    if fail_above is not None:
        late = [each.group.id for each in found if (each.lag or 0) > fail_above]
        for group in late:
            note(f"Group {group} is more than {fail_above} behind.")
        if late:
            sys.exit(TOO_MUCH)


def _of(positions: tuple[Position, ...], topics: tuple[str, ...]) -> tuple[Position, ...]:
    return tuple(position for position in positions if not topics or position.topic in topics)


def _told(progress: Progress) -> dict[str, Any]:
    group = progress.group
    by_topic = groupby(progress.positions, key=lambda position: position.topic)
    return {
        "group": group.id,
        "state": group.state,
        "members": len(group.members),
        **_sum(progress.positions),
        "topics": [{"topic": topic, **_sum(tuple(positions))} for topic, positions in by_topic],
    }


def _sum(positions: tuple[Position, ...]) -> dict[str, Any]:
    from ottla.cli.admin.group_lag import total_lag

    known = [position for position in positions if position.lag is not None]
    worst = max(known, key=lambda position: position.lag or 0, default=None)
    return {
        "partitions": len(positions),
        "unknown": len(positions) - len(known),
        "lag": total_lag(positions),
        "largest": None
        if worst is None
        else {"topic": worst.topic, "partition": worst.partition, "lag": worst.lag},
    }  # fmt: skip


def _rows(group: dict[str, Any]) -> list[dict[str, Any]]:
    """One for each topic, and one for all if there are several or none."""
    rows = [{**group, **topic} for topic in group["topics"]]
    return rows if len(rows) == 1 else [*rows, {**group, "topic": ALL_TOPICS if rows else None}]


def _largest(row: Mapping[str, Any]) -> str:
    worst = row["largest"]
    if worst is None:
        return "-"
    return f"{worst['lag']} ({worst['topic']}-{worst['partition']})" if worst["lag"] else "0"
