"""`ottla group delete`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import group_names
from ottla.cli.output import is_terminal, may_go_on, outcome_option, print_outcome
from ottla.cli.scope import Scope, ScopeType

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.model.names import TopicPartition


@click.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=group_names)
@click.option(
    "--topic", "scopes", type=ScopeType(), multiple=True,
    help="Only the offsets of this topic, or of partitions of it; the groups stay. Repeatable.",
)  # fmt: skip
@click.option("-y", "--yes", is_flag=True, help="Do not ask on a terminal.")
@outcome_option
@cluster_options
def command(
    groups: tuple[str, ...], scopes: tuple[Scope, ...], yes: bool, output: str | None, cluster: Cluster
) -> None:
    """Delete groups without members with all their offsets; or, with --topic, only offsets of topics that none reads.

    A consumer of a group that was deleted begins where its auto.offset.reset says.
    """
    from ottla.cli.admin import session

    groups = tuple(dict.fromkeys(groups))
    if sys.stdin.isatty() and is_terminal():  # a script that says delete means it
        named = ", ".join(groups)
        topics = ", ".join(dict.fromkeys(scope.topic for scope in scopes))
        may_go_on(f"Delete the offsets of {named} in {topics}?" if scopes else f"Delete {named} with all offsets?", yes)

    async def ask(there: Session) -> list[dict[str, Any]]:
        return await (_delete_offsets(there, groups, scopes) if scopes else _delete_groups(there, groups))

    rows = session.run(cluster, ask)
    without = [group for group in groups if not any(row["group"] == group for row in rows)]
    print_outcome(output, rows, *_sentences(rows), *(f"Group {group} has no offsets there." for group in without))
    if not all(row["deleted"] for row in rows):
        sys.exit(1)


async def _delete_groups(there: Session, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    from ottla.cli.admin.groups import delete_groups, similar
    from ottla.model.errors import ErrorCode

    rows = []
    for group, refused in (await delete_groups(there, groups)).items():
        missing = refused is not None and refused.code is ErrorCode.group_id_not_found
        reason = None if refused is None else str(refused)
        if missing and (hint := await similar(there, group)):
            reason = f"there is no such group{hint}"
        rows.append({"group": group, "deleted": refused is None, "reason": reason})
    return rows


async def _delete_offsets(there: Session, groups: tuple[str, ...], scopes: tuple[Scope, ...]) -> list[dict[str, Any]]:
    from ottla.cli.admin import group_offsets

    rows = []
    for group in groups:
        wanted = await _partitions(there, group, scopes)
        outcome = await group_offsets.delete(there, group, wanted) if wanted else {}
        rows += [
            {
                "group": group, "topic": place.topic, "partition": place.partition, "deleted": refused is None,
                "reason": None if refused is None else str(refused),
            }
            for place, refused in sorted(outcome.items())
        ]  # fmt: skip
    return rows


async def _partitions(there: Session, group: str, scopes: tuple[Scope, ...]) -> list[TopicPartition]:
    """Those that the group has an offset of."""
    from ottla.cli.admin.group_offsets import committed
    from ottla.cli.admin.groups import described

    await described(there, [group])
    return [
        place
        for place in await committed(there, group)
        if any(place.topic == topic and (not only or place.partition in only) for topic, only in scopes)
    ]


def _sentences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One for each group, or topic of a group: what is true of one partition mostly is of all."""
    lines: dict[str, list[int]] = {}
    for row in rows:
        group, topic = row["group"], row.get("topic")
        if topic is None:
            refused = f"ottla: cannot delete group {group}: {row['reason']}"
            lines[f"Deleted group {group}." if row["deleted"] else refused] = []
        elif row["deleted"]:
            lines.setdefault(f"Deleted the offsets of group {group} in {topic}", []).append(row["partition"])
        else:
            lines[f"ottla: cannot delete offsets of group {group} in {topic}: {row['reason']}"] = []
    return [f"{line}, {_partitions_text(numbers)}." if numbers else line for line, numbers in lines.items()]


def _partitions_text(numbers: Sequence[int]) -> str:
    return f"partition{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
