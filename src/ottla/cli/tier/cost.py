"""`ottla tier cost`."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, note, output_option, print_rows
from ottla.cli.scope import Scope, ScopeType
from ottla.env.obstore_store import PART_BYTES

COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("GB", lambda row: f"{row['gb']:.3f}"),
    Column("SEGMENTS", "segments"),
    Column("A MONTH", lambda row: f"{row['month']:.2f}"),
    Column("COPIED ONCE", lambda row: f"{row['copied']:.4f}"),
    Column("READ ONCE", lambda row: f"{row['read']:.4f}"),
)
PRICE: Final = click.FloatRange(min=0)
_GB: Final = 1_000_000_000
_SMALL_OBJECTS: Final = 5  # that a segment mostly has beside its batches


def _puts(size: int) -> int:
    """Requests that a segment takes: what is larger than a part is begun, put in parts, and ended."""
    parts = -(-size // PART_BYTES)
    return _SMALL_OBJECTS + (1 if parts <= 1 else parts + 2)


@click.command("cost")
@click.argument("scopes", nargs=-1, type=ScopeType(), metavar="[TOPIC[:N,...]]...")
@click.option("--gb-month", type=PRICE, default=0.023, show_default=True, help="The price of a GB for a month.")
@click.option("--puts", type=PRICE, default=0.005, show_default=True, help="The price of 1000 puts.")
@click.option("--gets", type=PRICE, default=0.0004, show_default=True, help="The price of 1000 gets.")
@click.option("--gb-out", type=PRICE, default=0.0, show_default=True, help="The price of a GB that leaves the store.")
@output_option
@cluster_options
def command(
    scopes: tuple[Scope, ...],
    gb_month: float,
    puts: float,
    gets: float,
    gb_out: float,
    output: str | None,
    cluster: Cluster,
) -> None:
    """What the remote tier costs a month, what it cost to put there, and what it costs to read all of it once.

    The prices are examples: give those of your store. A segment is some six objects, of which large ones are put in
    parts of 8 MiB, and is read a MiB at a time.
    """
    from ottla.cli.tier.known import read_known
    from ottla.tier.manifest import CHUNK_BYTES

    by_topic: dict[str, dict[str, Any]] = {}
    for of, log in read_known(cluster).chosen(scopes):
        row = by_topic.setdefault(of.topic, {"topic": of.topic, "bytes": 0, "segments": 0, "puts": 0, "gets": 0})
        for segment in log.readable():
            row["bytes"] += segment.size
            row["segments"] += 1
            row["puts"] += _puts(segment.size)
            row["gets"] += -(-segment.size // CHUNK_BYTES) + 2
    rows = []
    for row in by_topic.values():
        gb = row["bytes"] / _GB
        rows.append(
            {
                "topic": row["topic"],
                "gb": gb,
                "segments": row["segments"],
                "month": gb * gb_month,
                "copied": row["puts"] * puts / 1000,
                "read": row["gets"] * gets / 1000 + gb * gb_out,
            }
        )
    print_rows(output, COLUMNS, rows)
    note(f"{sum(row['month'] for row in rows):.2f} a month for {sum(row['gb'] for row in rows):.3f} GB in all.")
