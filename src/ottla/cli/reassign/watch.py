"""`ottla reassign watch`."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, count, note, output_option, print_rows
from ottla.cli.progress import bytes_text
from ottla.cli.reassign.copying import Look
from ottla.cli.reassign.options import interval_option, keep_throttles_option

COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("REPLICAS", "replicas"),
    Column("ADDING", "adding"),
    Column("REMOVING", "removing"),
    Column("COPIED", lambda row: f"{bytes_text(row['copied'])} of {bytes_text(row['to_copy'])}"),
)


@click.command("watch")
@click.option("--once", is_flag=True, help="Only list what is being moved now.")
@interval_option
@keep_throttles_option
@output_option
@cluster_options
def command(once: bool, interval: float, keep_throttles: bool, output: str | None, cluster: Cluster) -> None:
    """Watch all moves that are under way until they are done, and then remove throttles; --once lists them."""
    from ottla.cli.admin import session
    from ottla.cli.reassign.copying import Copying

    first = session.run(cluster, Copying().look)
    if once or output is not None:
        if first.partitions or output is not None:
            print_rows(output, COLUMNS, _rows(first))
        elif not first.partitions:
            note("No partition is being moved.")
    if once:
        return
    from ottla.cli.reassign.watching import watch_to_the_end

    look = watch_to_the_end(cluster, None, interval, keep_throttles=keep_throttles)
    note(f"Done: {count(look.known, 'partition')} moved." if look.known else "No partition is being moved.")


def _rows(look: Look) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "replicas": list(copied.move.replicas),
            "adding": list(copied.move.adding),
            "removing": list(copied.move.removing),
            "copied": copied.done,
            "to_copy": copied.total,
        }
        for place, copied in sorted(look.partitions.items())
    ]
