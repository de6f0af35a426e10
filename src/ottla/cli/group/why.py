"""`ottla group why`: why a group rebalanced, in plain sentences."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import group_names
from ottla.cli.output import output_option, print_value
from ottla.cli.times import Time

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.cli.group.why_report import Report

_HOUR_MS: Final = 3_600_000


@click.command("why")
@click.argument("group", shell_complete=group_names)
@click.option("--since", "since_ms", type=Time(), help="How far to look back.  [default: 1h ago]")
@click.option("-n", "--last", type=click.IntRange(min=0), default=5, show_default=True, help="How many to list.")
@output_option
@cluster_options
def command(group: str, since_ms: int | None, last: int, output: str | None, cluster: Cluster) -> None:
    """Say why a group rebalanced: who is the cause, on which evidence, and what can be done.

    Whatever cannot be known for certain is marked as probable. A TIME is 2026-11-15T12:00, or `5m ago`.
    """
    from ottla.cli.admin import session

    now_ms = int(time.time() * 1000)
    report = session.run(cluster, lambda there: report_on(there, group, since_ms, now_ms))
    if output in ("json", "yaml"):
        print_value(output, report.as_value(last))
        return
    import shutil

    width = max(60, min(100, shutil.get_terminal_size().columns))
    for line in report.lines(last, width):
        click.echo(line)


async def report_on(there: Session, group_id: str, since_ms: int | None, now_ms: int) -> Report:
    """What is remembered of a group and how it is now; by default of the last hour."""
    from ottla.cli.admin.group_history import group_history
    from ottla.cli.admin.group_lag import progress
    from ottla.cli.group.why_report import Report
    from ottla.model.errors import OttlaError

    history = await group_history(there, group_id)
    (now,) = await progress(there, [group_id])
    if history is None:
        raise OttlaError(
            f"this cluster remembers nothing of its groups: only nodes of Ottla do, from a group's first member on. "
            f"`ottla group describe --state {group_id}` shows how it is now."
        )
    return Report(now, history, since_ms if since_ms is not None else now_ms - _HOUR_MS, now_ms)
