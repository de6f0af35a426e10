"""`ottla topic table`."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import Column, output_option, print_rows
from ottla.cli.partitions import partitions_option
from ottla.cli.times import iso
from ottla.model.errors import OttlaError

COLUMNS: Final = (
    Column("KEY", "key"),
    Column("VALUE", "value"),
    Column("PARTITION", "partition"),
    Column("OFFSET", "offset"),
    Column("TIME", lambda row: "-" if row["timestamp"] is None else iso(row["timestamp"])),
)


@click.command("table")
@click.argument("name", shell_complete=topic_names)
@click.option("-k", "--key", help="Only this key.")
@partitions_option
@output_option
@cluster_options
def command(name: str, key: str | None, only: tuple[int, ...], output: str | None, cluster: Cluster) -> None:
    """Show the topic NAME as a table: the newest value of each key, without those that were deleted.

    All that is committed now is read, from the beginning, whether it was compacted or not. Keys are shown in their
    order; a key that stands in two partitions is shown twice.
    """
    from ottla.cli.topic.table_reading import read_table

    rows = read_table(cluster, name, only, None if key is None else key.encode())
    if key is not None and not rows:
        raise OttlaError(f"topic {name} has no value for the key {key!r}, or it was deleted")
    print_rows(output, COLUMNS, [_row(row) for row in rows])


def _row(found: dict[str, Any]) -> dict[str, Any]:
    return found | {name: _text(found[name]) for name in ("key", "value")}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
