"""`ottla group describe`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.group.names import check, chosen, groups_argument
from ottla.cli.output import Column, count, note, output_option, print_rows, print_value

if TYPE_CHECKING:
    from ottla.cli.admin.group_lag import Progress
    from ottla.cli.admin.groups import Group
    from ottla.cli.admin.session import Session

OFFSETS: Final = (
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("CURRENT-OFFSET", "current_offset"),
    Column("LOG-END-OFFSET", "log_end_offset"),
    Column("LAG", "lag"),
    Column("CONSUMER-ID", "consumer_id"),
    Column("HOST", "host"),
    Column("CLIENT-ID", "client_id"),
)
STATE: Final = (
    Column("GROUP", "group"),
    Column("COORDINATOR (ID)", lambda row: f"{row['coordinator_address']} ({row['coordinator']})"),
    Column("TYPE", "type"),
    Column("ASSIGNMENT-STRATEGY", "assignor"),
    Column("STATE", "state"),
    Column("EPOCH", "epoch"),
    Column("#MEMBERS", "members"),
)


@click.command("describe")
@groups_argument
@click.option("--state", is_flag=True, help="Coordinator, assignor, state and number of members instead.")
@output_option
@cluster_options
def command(groups: tuple[str, ...], every: bool, state: bool, output: str | None, cluster: Cluster) -> None:
    """Show where groups are in each partition and how far behind, and whose it is; or, with --state, how groups are.

    A `-` is what is not known: nothing is committed yet, or nobody has the partition now.
    """
    from ottla.cli.admin import session

    check(groups, every)
    session.run(cluster, lambda there: _states(there, groups, output) if state else _offsets(there, groups, output))


async def _offsets(there: Session, groups: tuple[str, ...], output: str | None) -> None:
    from ottla.cli.admin.group_lag import progress

    found = await progress(there, await chosen(there, groups), leave_out_missing=not groups)
    described = [_told(each) for each in found]
    if output in ("json", "yaml"):
        print_value(output, described)
        return
    rows = [{"group": group["group"], **row} for group in described for row in group["partitions"]]
    if rows or output is not None:
        print_rows(output, OFFSETS, rows)
    for each in found:
        remark(each)
    if not found:
        note("There are no groups.")


def _told(progress: Progress) -> dict[str, Any]:
    group = progress.group
    return {
        "group": group.id,
        "type": group.type,
        "state": group.state,
        "members": len(group.members),
        "lag": progress.lag,
        "partitions": [
            {
                "topic": position.topic,
                "partition": position.partition,
                "current_offset": position.current,
                "leader_epoch": position.leader_epoch,
                "log_end_offset": position.end,
                "lag": position.lag,
                "consumer_id": None if position.member is None else position.member.id,
                "host": None if position.member is None else position.member.host,
                "client_id": None if position.member is None else position.member.client_id,
            }
            for position in progress.positions
        ],
    }


def remark(progress: Progress) -> None:
    """What the rows do not say."""
    group = progress.group
    idle = sum(member.assigned == () for member in group.members)
    if not group.is_active:
        note(f"Group {group.id} has no members now.")
    elif group.state != "Stable":
        note(f"Group {group.id} is rebalancing ({group.state}): who has what may change at any moment.")
    elif idle:
        note(
            f"{count(idle, 'member')} of group {group.id} {'has' if idle == 1 else 'have'} no partition; "
            f"`ottla group members {group.id}` shows all."
        )
    if not progress.positions:
        note(f"Group {group.id} has committed no offsets.")


async def _states(there: Session, groups: tuple[str, ...], output: str | None) -> None:
    from ottla.cli.admin.groups import described

    found = await described(there, await chosen(there, groups), leave_out_missing=not groups)
    rows = [_state(there, group) for group in found.values()]
    if rows or output is not None:
        print_rows(output, STATE, rows)
    else:
        note("There are no groups.")


def _state(there: Session, group: Group) -> dict[str, Any]:
    return {
        "group": group.id,
        "coordinator": group.coordinator,
        "coordinator_address": str(there.brokers[group.coordinator]),
        "type": group.type,
        "assignor": group.assignor or None,
        "state": group.state,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": len(group.members),
    }
