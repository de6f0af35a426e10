"""`ottla cluster quorum`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, is_terminal, output_option, print_rows, print_value

if TYPE_CHECKING:
    from ottla.cli.admin.quorum import Member, Quorum

NONE_LEADS: Final = "nobody: an election is under way, or most voters are down"


def _ago(key: str) -> Column:
    def text(row: Mapping[str, Any]) -> str:
        return "-" if row[key] is None else f"{row[key]:.1f} s ago"

    return Column({"fetched_s_ago": "FETCHED", "level_s_ago": "LEVEL"}[key], text)


COLUMNS: Final = (
    Column("NODE", "node"),
    Column("PART", "part"),
    Column("END", "end"),
    Column("LAG", "lag"),
    _ago("fetched_s_ago"),
    _ago("level_s_ago"),
    Column("ADDRESS", "address"),
)


@click.command("quorum")
@output_option
@cluster_options
def command(output: str | None, cluster: Cluster) -> None:
    """Show who leads the metadata quorum, in which epoch, and how far its voters and observers are behind.

    Also of a controller: -b may name one.
    """
    from ottla.cli.admin import session
    from ottla.cli.admin.quorum import quorum

    found = session.run(cluster, quorum)
    rows = [_row(found, member) for member in found.members]
    if output in ("json", "yaml"):
        told = {"leader": found.leader, "epoch": found.epoch, "high_watermark": found.high_watermark, "members": rows}
        print_value(output, told)
        return
    if is_terminal() or output == "table":
        click.echo(f"leader          {NONE_LEADS if found.leader is None else f'node {found.leader}'}")
        click.echo(f"epoch           {found.epoch}")
        click.echo(f"high watermark  {found.high_watermark}\n")
    print_rows(output, COLUMNS, rows)


def _row(quorum: Quorum, member: Member) -> dict[str, Any]:
    from ottla.model.ids import uuid_text

    def ago(moment_ms: int | None) -> float | None:
        return None if moment_ms is None else round(max(0.0, time.time() - moment_ms / 1000), 1)

    leads = member.id == quorum.leader
    return {
        "node": member.id,
        "part": "leader" if leads else "voter" if member.is_voter else "observer",
        "end": member.end,
        "lag": quorum.lag(member),
        "fetched_s_ago": None if leads else ago(member.fetched_ms),
        "level_s_ago": None if leads else ago(member.level_ms),
        "address": None if member.address is None else str(member.address),
        "directory": None if member.directory is None else uuid_text(member.directory),
    }
