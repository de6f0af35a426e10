"""`ottla group seek`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import group_names
from ottla.cli.output import note, output_option, print_rows
from ottla.cli.partitions import partitions_option
from ottla.cli.scope import Scope, ScopeType, partitions_in
from ottla.cli.times import iso, parse_time

if TYPE_CHECKING:
    from ottla.cli.group.new_offsets import Offsets, Scenario
    from ottla.model.names import TopicPartition


@click.command("seek")
@click.argument("group", shell_complete=group_names)
@click.argument("scope", type=ScopeType(), metavar="TOPIC[:PARTITION,...]")
@click.option(
    "-o", "--offset", "start", required=True, metavar="OFFSET",
    help="Where to: beginning, end, N, -N before the end, s@TIME.",
)  # fmt: skip
@partitions_option
@output_option
@cluster_options
def command(group: str, scope: Scope, start: str, only: tuple[int, ...], output: str | None, cluster: Cluster) -> None:
    """Set the offsets of GROUP in TOPIC, at once; `reset` shows first what it would do. The group must be inactive."""
    from ottla.cli.admin import session, topics
    from ottla.cli.admin.groups import described
    from ottla.cli.group.new_offsets import COLUMNS, apply, check_inactive, look

    scenario = _scenario(start)
    if scope.only and only:
        raise click.UsageError(f"which partitions? Name them either after {scope.topic}: or by -p")
    wanted = scope if scope.only else Scope(scope.topic, only)

    async def ask(there: session.Session) -> list[dict[str, Any]]:
        known = (await described(there, [group]))[group]
        check_inactive(known)

        async def choose(old: Offsets) -> Sequence[TopicPartition]:
            return partitions_in([wanted], await topics.topics(there, [wanted.topic]))

        return await apply(await look(there, known, choose), scenario, execute=True)

    print_rows(output, COLUMNS, session.run(cluster, ask))


def _scenario(text: str) -> Scenario:
    import time

    from ottla.cli.group import new_offsets
    from ottla.cli.reading_range import parse_start

    if text.startswith("s@"):
        try:
            moment = parse_time(text[2:], int(time.time() * 1000))
        except ValueError as error:
            raise click.UsageError(f"-o {text}: {error}") from None
        note(f"The time is {iso(moment)}.")
        return new_offsets.at_time(moment)
    start = parse_start(text)
    if isinstance(start, int):
        return new_offsets.to_offset(start) if start >= 0 else new_offsets.before_end(-start)
    if start == "stored":
        raise click.UsageError("-o stored: that is where the group is already")
    return new_offsets.to_earliest if start == "beginning" else new_offsets.to_latest
