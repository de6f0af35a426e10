"""`ottla pipeline logs`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, note, output_option, print_rows
from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean


@click.command()
@click.argument("name")
@click.option("-n", "--count", type=click.IntRange(min=1), default=100, show_default=True, help="So many lines.")
@output_option
@cluster_options
def command(name: str, count: int, output: str | None, cluster: Cluster) -> None:
    """Show what a deployed pipeline has said lately, whichever worker ran it."""
    from ottla.cli.pipeline import deployed
    from ottla.pipeline.service.records import DEPLOYED, LOGS

    own = [one for one in deployed.all_messages(cluster, LOGS) if (one.key() or b"").decode() == name]
    if not own:  # one that is no longer deployed may still have said something
        there = deployed.newest(cluster, DEPLOYED)
        if name not in there:
            raise OttlaError(f"there is no deployed pipeline {name}{did_you_mean(name, there)}")
        if output is None:
            note(f"{name} has not said anything yet; `ottla pipeline list` shows whether a worker runs it")
            return
    rows = [
        {
            "at": datetime.fromtimestamp(one.timestamp()[1] / 1000, UTC).isoformat(timespec="milliseconds"),
            "worker": dict(one.headers() or []).get("worker", b"").decode(),
            "line": one.value().decode("utf-8", "backslashreplace"),
        }
        for one in own[-count:]
    ]
    print_rows(output, (Column("AT", "at"), Column("WORKER", "worker"), Column("LINE", "line")), rows)
