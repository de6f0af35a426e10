"""`ottla cluster nodes`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, output_option, print_rows
from ottla.cli.progress import bytes_text

if TYPE_CHECKING:
    from ottla.cli.admin.brokers import Broker
    from ottla.cli.admin.quorum import Quorum
    from ottla.cli.admin.session import Session


def _size(row: Mapping[str, Any]) -> str:
    return "-" if row["bytes"] is None else bytes_text(row["bytes"])


COLUMNS: Final = (
    Column("NODE", "node"),
    Column("ROLES", "roles"),
    Column("ADDRESS", "address"),
    Column("RACK", "rack"),
    Column("STATE", "state"),
    Column("LEADS", "leads"),
    Column("REPLICAS", "replicas"),
    Column("SIZE", _size),
)


@click.command("nodes")
@output_option
@cluster_options
def command(output: str | None, cluster: Cluster) -> None:
    """List the nodes: where they are, what they do, and what they hold.

    A broker is up, or fenced: registered, but not to be reached by clients. Of the quorum, the leader is the active
    controller.
    """
    from ottla.cli.admin import session

    print_rows(output, COLUMNS, session.run(cluster, _rows))


async def _rows(there: Session) -> list[dict[str, Any]]:
    from ottla.cli.admin import brokers, quorum, replica_logs, topics
    from ottla.model.errors import OttlaError

    found = await topics.topics(there)
    known = {broker.id: broker for broker in (await brokers.brokers(there)).brokers}
    try:
        members: Quorum | None = await quorum.quorum(there)
    except OttlaError:  # older than KRaft, or nobody leads: the brokers are there all the same
        members = None
    sizes: Counter[int] = Counter()
    answered = set()
    for replica, size in (await replica_logs.sizes(there, replica_logs.replicas_of(found))).items():
        sizes[replica.broker] += size
        answered.add(replica.broker)
    parts = [part for topic in found for part in topic.partitions]
    leads = Counter(part.leader for part in parts)
    replicas = Counter(broker for part in parts for broker in part.replicas)
    voters = set() if members is None else {voter.id for voter in members.voters}
    rows = []
    for node in sorted({*known, *voters}):
        broker = known.get(node)
        is_asked = broker is not None and (node in answered or not replicas[node])
        rows.append(
            {
                "node": node,
                "roles": [*(("broker",) if broker else ()), *(("controller",) if node in voters else ())],
                "address": _address(node, broker, members),
                "rack": None if broker is None else broker.rack,
                "state": _state(node, broker, members, is_asked=is_asked),
                "leads": None if broker is None else leads[node],
                "replicas": None if broker is None else replicas[node],
                "bytes": sizes[node] if is_asked else None,
                "is_active_controller": members is not None and members.leader == node,
            }
        )
    return rows


def _address(node: int, broker: Broker | None, members: Quorum | None) -> str | None:
    if broker is not None:
        return str(broker.address)
    found = next((member.address for member in members.members if member.id == node), None) if members else None
    return None if found is None else str(found)


def _state(node: int, broker: Broker | None, members: Quorum | None, *, is_asked: bool) -> str:
    """A controller without a broker tells nothing of itself: that it fetches is seen by the leader."""
    if members is not None and members.leader == node:
        return "active" if broker is None or not broker.fenced else "active, fenced"
    if broker is None:
        return "standby"
    return "fenced" if broker.fenced else "up" if is_asked else "no answer"
