"""`ottla group delete`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ottla.cli.cluster import Cluster, cluster_options
from ottla.cli.completing import group_names
from ottla.cli.group.scope import Scope, ScopeType
from ottla.cli.output import count, is_terminal, may_go_on, note

if TYPE_CHECKING:
    from ottla.cli.admin.session import Refusal, Session
    from ottla.model.names import TopicPartition


@click.command("delete")
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=group_names)
@click.option(
    "--topic", "scopes", type=ScopeType(), multiple=True,
    help="Only the offsets of this topic, or of partitions of it; the groups stay. Repeatable.",
)  # fmt: skip
@click.option("-y", "--yes", is_flag=True, help="Do not ask on a terminal.")
@cluster_options
def command(groups: tuple[str, ...], scopes: tuple[Scope, ...], yes: bool, cluster: Cluster) -> None:
    """Delete groups without members with all their offsets; or, with --topic, only offsets of topics that none reads.

    A consumer of a group that was deleted begins where its auto.offset.reset says.
    """
    from ottla.cli.admin import session

    groups = tuple(dict.fromkeys(groups))
    if sys.stdin.isatty() and is_terminal():  # a script that says delete means it
        named = ", ".join(groups)
        topics = ", ".join(dict.fromkeys(scope.topic for scope in scopes))
        may_go_on(f"Delete the offsets of {named} in {topics}?" if scopes else f"Delete {named} with all offsets?", yes)
    if scopes:
        failed = session.run(cluster, lambda there: _delete_offsets(there, groups, scopes))
    else:
        failed = session.run(cluster, lambda there: _delete_groups(there, groups))
    if failed:
        sys.exit(1)


async def _delete_groups(there: Session, groups: tuple[str, ...]) -> bool:
    from ottla.cli.admin.groups import delete_groups, no_such_group
    from ottla.model.errors import ErrorCode

    outcome = await delete_groups(there, groups)
    for group, refused in outcome.items():
        if refused is None:
            note(f"Deleted group {group}.")
        elif refused.code is ErrorCode.group_id_not_found:
            note(f"ottla: {await no_such_group(there, group)}")
        else:
            note(f"ottla: cannot delete group {group}: {refused}")
    return any(outcome.values())


async def _delete_offsets(there: Session, groups: tuple[str, ...], scopes: tuple[Scope, ...]) -> bool:
    from ottla.cli.admin import group_offsets

    failed = False
    for group in groups:
        wanted = await _partitions(there, group, scopes)
        outcome = await group_offsets.delete(there, group, wanted) if wanted else {}
        gone = [place for place, refused in outcome.items() if refused is None]
        if gone:
            note(f"Deleted {count(len(gone), 'offset')} of group {group}: {', '.join(map(str, gone))}.")
        elif not outcome:
            note(f"Group {group} has no offsets there.")
        failed |= len(gone) < len(outcome)
        _complain(group, outcome)
    return failed


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


def _complain(group: str, outcome: dict[TopicPartition, Refusal | None]) -> None:
    """Once for a topic: what is true of one partition mostly is of all."""
    told: set[tuple[str, object]] = set()
    for place, refused in outcome.items():
        if refused is not None and (place.topic, refused.code) not in told:
            told.add((place.topic, refused.code))
            note(f"ottla: cannot delete offsets of group {group} in {place.topic}: {refused}")
