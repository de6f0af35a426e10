"""`ottla group reset`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.group.names import check, chosen, groups_argument
from ottla.cli.output import count, note, output_option, print_rows
from ottla.cli.scope import Scope, ScopeType, partitions_in
from ottla.cli.times import Span, Time, iso

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.cli.group.new_offsets import Offsets, Scenario
    from ottla.cli.group.plan_file import Plan
    from ottla.model.names import TopicPartition


@click.command("reset")
@groups_argument
@click.option("--topic", "scopes", type=ScopeType(), multiple=True, help="In this topic, or partitions; repeatable.")
@click.option("--all-topics", is_flag=True, help="In all partitions that the group has committed an offset of.")
@click.option("--to-earliest", is_flag=True, help="To the beginning of each partition.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-current", is_flag=True, help="To what is committed now; where nothing is, to the end.")
@click.option("--to-offset", type=click.IntRange(min=0), help="To an offset.")
@click.option("--to-datetime", type=Time(), help="To the first record at or after a time.")
@click.option("--by-duration", type=Span(), help="To the first record younger than so long: PT1H30M, 90m, 2d.")
@click.option("--shift-by", type=int, help="By so many records forward, or backward if negative.")
@click.option("--from-file", metavar="CSV", help="To what a file says: [GROUP,]TOPIC,PARTITION,OFFSET lines.")
@click.option("--execute", is_flag=True, help="Do it. Otherwise it is only shown.")
@click.option("--dry-run", is_flag=True, help="Only show it, which is the default.")
@click.option("--export", is_flag=True, help="Print the new offsets as CSV, for --from-file.")
@output_option
@cluster_options
def command(
    groups: tuple[str, ...],
    every: bool,
    scopes: tuple[Scope, ...],
    all_topics: bool,
    execute: bool,
    dry_run: bool,
    export: bool,
    output: str | None,
    cluster: Cluster,
    **given: Any,
) -> None:
    """Set the offsets of groups without members. It only shows what it would do, unless told to --execute.

    A TIME is 2026-11-15T12:00 (local; +02:00 or Z for a zone), seconds or milliseconds since 1970, or `5m ago`.
    """
    from ottla.cli.admin import session

    check(groups, every)
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other")
    _check_scenario(given)
    path = given["from_file"]
    if path is not None and (scopes or all_topics):
        raise click.UsageError("--from-file says itself which partitions: leave --topic and --all-topics out")
    if path is None and bool(scopes) == all_topics:
        raise click.UsageError("which partitions? Give either --topic TOPIC[:PARTITION,...] or --all-topics")
    plan = _read(path, groups)
    made = _Reset(scopes, plan, _scenario(given), execute=execute)
    rows = session.run(cluster, lambda there: made.run(there, groups))
    if export:
        from ottla.cli.group.plan_file import written

        click.echo(written(rows, with_groups=len(groups) != 1), nl=False)
    else:
        from ottla.cli.group.new_offsets import COLUMNS

        if rows or output is not None:
            print_rows(output, COLUMNS, rows)
    _conclude(rows, execute)
    if made.refused:
        sys.exit(1)


def _check_scenario(given: dict[str, Any]) -> None:
    names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value not in (None, False)]
    if len(names) > 1:
        raise click.UsageError(f"{names[0]} and {names[1]} exclude each other")
    if not names:
        every = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"to where? Give one of {every}")


def _read(path: str | None, groups: Sequence[str]) -> Plan | None:
    if path is None:
        return None
    from ottla.cli.group.plan_file import read

    return read(path, groups)


def _scenario(given: dict[str, Any]) -> Scenario | None:
    """None for a file, which has one for each group."""
    import time

    from ottla.cli.group import new_offsets

    if given["to_offset"] is not None:
        return new_offsets.to_offset(given["to_offset"])
    if given["shift_by"] is not None:
        return new_offsets.shifted(given["shift_by"])
    if given["by_duration"] is not None:
        return _at_time(int(time.time() * 1000) - given["by_duration"])
    if given["to_datetime"] is not None:
        return _at_time(given["to_datetime"])
    plain = {
        "to_earliest": new_offsets.to_earliest,
        "to_latest": new_offsets.to_latest,
        "to_current": new_offsets.to_current,
    }
    return next((scenario for name, scenario in plain.items() if given[name]), None)


def _at_time(timestamp_ms: int) -> Scenario:
    from ottla.cli.group.new_offsets import at_time

    note(f"The time is {iso(timestamp_ms)}.")
    return at_time(timestamp_ms)


class _Reset:
    def __init__(
        self, scopes: Sequence[Scope], plan: Plan | None, scenario: Scenario | None, *, execute: bool
    ) -> None:  # fmt: skip
        self.refused = False
        self._scopes = scopes
        self._plan = plan
        self._scenario = scenario
        self._execute = execute

    async def run(self, there: Session, groups: tuple[str, ...]) -> list[dict[str, Any]]:
        """One group that cannot be reset does not keep the others from it."""
        from ottla.cli.admin.groups import describe
        from ottla.model.errors import OttlaError

        ids = list(self._plan) if self._plan is not None and not groups else await chosen(there, groups)
        described = await describe(there, ids)
        rows = []
        for group_id in ids:
            try:
                rows += await self._one(there, described[group_id])
            except OttlaError as error:
                if len(ids) == 1:
                    raise
                note(f"ottla: {error}")
                self.refused = True
        return rows

    async def _one(self, there: Session, group: Any) -> list[dict[str, Any]]:
        from ottla.cli.admin import topics
        from ottla.cli.admin.groups import similar
        from ottla.cli.group.new_offsets import apply, as_written, check_inactive, look
        from ottla.model.errors import OttlaError

        check_inactive(group)
        if not group.exists:
            hint = await similar(there, group.id)
            note(f"Group {group.id} is not there yet: it comes to be with its offsets{hint or '.'}")
        wanted = None if self._plan is None else self._plan.get(group.id)
        if self._plan is not None and wanted is None:
            raise OttlaError(f"the file has no offsets of group {group.id}")

        async def choose(old: Offsets) -> Sequence[TopicPartition]:
            if wanted is not None:
                return sorted(wanted)
            if self._scopes:
                found = await topics.topics(there, list(dict.fromkeys(scope.topic for scope in self._scopes)))
                return partitions_in(self._scopes, found)
            if not old:
                note(f"Group {group.id} has committed no offsets: name topics by --topic.")
            return sorted(old)

        around = await look(there, group, choose)
        return await apply(around, self._scenario or as_written(wanted or {}), execute=self._execute)


def _conclude(rows: Sequence[dict[str, Any]], execute: bool) -> None:
    changed = sum(row["old_offset"] != row["new_offset"] for row in rows)
    groups = {row["group"] for row in rows}
    if not rows:
        note("There is nothing to reset.")
    elif execute:
        of = f"group {next(iter(groups))}" if len(groups) == 1 else count(len(groups), "group")
        note(f"Set {count(len(rows), 'offset')} of {of}; {changed} changed.")
    elif changed:
        note("Nothing was changed: this is what --execute would do.")
    else:
        note("Nothing was changed, and nothing would be: the offsets are there already.")
