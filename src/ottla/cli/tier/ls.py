"""`ottla tier ls`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, count, note, output_option, print_rows
from ottla.cli.scope import Scope, ScopeType

if TYPE_CHECKING:
    from ottla.tier.remote_segment import RemoteSegment

COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("FROM", "start_offset"),
    Column("TO", "end_offset"),
    Column("BYTES", "bytes"),
    Column("EPOCHS", lambda row: ",".join(str(each["epoch"]) for each in row["epochs"])),
    Column("NEWEST RECORD", "newest"),
    Column("BROKER", "broker"),
    Column("STATE", "state"),
)


@click.command("ls")
@click.argument("scopes", nargs=-1, type=ScopeType(), metavar="[TOPIC[:N,...]]...")
@output_option
@cluster_options
def command(scopes: tuple[Scope, ...], output: str | None, cluster: Cluster) -> None:
    """List the segments in the remote tier, as the metadata topic has them.

    JSON and YAML also say under which name the objects of a segment are in the store.
    """
    from ottla.cli.tier.known import read_known

    rows = [_row(segment) for _, log in read_known(cluster).chosen(scopes) for segment in log.listed()]
    print_rows(output, COLUMNS, rows)
    note(f"{count(len(rows), 'segment')}, {sum(row['bytes'] for row in rows)} bytes.")


def _row(segment: RemoteSegment) -> dict[str, Any]:
    from ottla.cli.times import iso
    from ottla.tier.layout import Kind, object_key

    return {
        "topic": segment.of.topic,
        "partition": segment.of.partition,
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "bytes": segment.size,
        "epochs": [{"epoch": epoch, "start_offset": start} for epoch, start in segment.epochs],
        "newest": iso(segment.max_timestamp),
        "broker": segment.broker_id,
        "state": segment.state.name.lower().replace("_", " "),
        "object": object_key(segment, Kind.LOG).removesuffix(".log"),
    }
