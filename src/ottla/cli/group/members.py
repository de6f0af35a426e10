"""`ottla group members`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.group.names import check, chosen, groups_argument
from ottla.cli.output import Column, note, output_option, print_rows, print_value

if TYPE_CHECKING:
    from ottla.cli.admin.groups import Group, Member
    from ottla.model.names import TopicPartition


@click.command("members")
@groups_argument
@click.option("-v", "--verbose", is_flag=True, help="Also which partitions each has or shall have, and its topics.")
@output_option
@cluster_options
def command(groups: tuple[str, ...], every: bool, verbose: bool, output: str | None, cluster: Cluster) -> None:
    """Show who is in groups: clients, hosts, and how many partitions each has.

    Members of the consumer protocol have an epoch, and a target: what the coordinator wants them to have once others
    have given it up.
    """
    from ottla.cli.admin import session
    from ottla.cli.admin.groups import described

    check(groups, every)

    async def ask(there: session.Session) -> list[Group]:
        return list((await described(there, await chosen(there, groups), leave_out_missing=not groups)).values())

    found = session.run(cluster, ask)
    if output in ("json", "yaml"):
        told = [
            {
                "group": group.id, "type": group.type, "state": group.state, "epoch": group.epoch,
                "assignment_epoch": group.assignment_epoch, "members": [_told(member) for member in group.members],
            }
            for group in found
        ]  # fmt: skip
        print_value(output, told)
        return
    rows = [{"group": group.id, **_row(member)} for group in found for member in group.members]
    if rows or output is not None:
        print_rows(output, _columns(rows, verbose), rows)
    for group in found:
        if not group.members:
            note(f"Group {group.id} has no members now.")
        elif group.state != "Stable":
            note(f"Group {group.id} is rebalancing ({group.state}): who has what may change at any moment.")
    if not found:
        note("There are no groups.")


def _columns(rows: list[dict[str, Any]], verbose: bool) -> list[Column]:
    """Those that not every kind of member has are there if one of these has them."""
    columns = [Column("GROUP", "group"), Column("CONSUMER-ID", "consumer_id")]
    if any(row["instance_id"] is not None for row in rows):
        columns.append(Column("GROUP-INSTANCE-ID", "instance_id"))
    columns += [Column("HOST", "host"), Column("CLIENT-ID", "client_id"), Column("#PARTITIONS", "partitions")]
    if verbose:
        by_epoch = any(row["epoch"] is not None for row in rows)
        columns += [Column("EPOCH", "epoch")] if by_epoch else []
        columns.append(Column("ASSIGNMENT", "assignment"))
        columns += [Column("TARGET", "target")] if by_epoch else []
        columns.append(Column("SUBSCRIBED", "subscribed"))
        if any(row["protocol"] is not None for row in rows):
            columns.append(Column("PROTOCOL", "protocol"))
    return columns


def _row(member: Member) -> dict[str, Any]:
    pattern = [] if member.pattern is None else [f"/{member.pattern}/"]
    return {
        "consumer_id": member.id,
        "instance_id": member.instance_id,
        "host": member.host,
        "client_id": member.client_id,
        "partitions": None if member.assigned is None else len(member.assigned),
        "epoch": member.epoch,
        "assignment": None if member.assigned is None else in_short(member.assigned),
        "target": None if member.target is None else in_short(member.target),
        "subscribed": [*member.topics, *pattern] or None,
        "protocol": _protocol(member),
    }


def _protocol(member: Member) -> str | None:
    if member.is_classic is None:
        return None
    return "classic" if member.is_classic else "consumer"


def in_short(partitions: Iterable[TopicPartition]) -> str:
    """As Kafka's tools write and read them: `orders:0,1;payments:0`."""
    topics = groupby(partitions, key=lambda place: place.topic)
    return ";".join(f"{topic}:{','.join(str(place.partition) for place in places)}" for topic, places in topics) or "-"


def _told(member: Member) -> dict[str, Any]:
    return {
        "consumer_id": member.id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "epoch": member.epoch,
        "protocol": _protocol(member),
        "subscribed_topics": list(member.topics),
        "subscribed_pattern": member.pattern,
        "assignment": _by_topic(member.assigned),
        "target_assignment": _by_topic(member.target),
    }


def _by_topic(partitions: tuple[TopicPartition, ...] | None) -> dict[str, list[int]] | None:
    if partitions is None:
        return None
    topics = groupby(partitions, key=lambda place: place.topic)
    return {topic: [place.partition for place in places] for topic, places in topics}
