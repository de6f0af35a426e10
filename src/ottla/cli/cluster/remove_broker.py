"""`ottla cluster remove-broker`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import outcome_option, print_outcome

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session


@click.command("remove-broker")
@click.argument("node", type=int)
@click.option("--force", is_flag=True, help="Even if it runs, or partitions are to be there.")
@outcome_option
@cluster_options
def command(node: int, force: bool, output: str | None, cluster: Cluster) -> None:
    """Make the cluster forget the broker NODE, which is stopped and will not come back.

    Move its partitions away first (`ottla reassign plan --remove-broker`). One that is started again later registers
    anew. Its vote, if it is a controller too, is another matter: `ottla cluster remove-controller`.
    """
    from ottla.cli.admin import session

    held = session.run(cluster, lambda there: _remove(there, node, force=force))
    remark = f" {held} partitions still name it as a replica." if held else ""
    print_outcome(output, {"node": node, "registered": False, "replicas": held}, f"Broker {node} is forgotten.{remark}")


async def _remove(there: Session, node: int, *, force: bool) -> int:
    """How many partitions are still to be there."""
    from ottla.cli.admin import brokers, topics
    from ottla.model.errors import OttlaError

    known = {broker.id: broker for broker in (await brokers.brokers(there)).brokers}
    if node not in known:
        raise OttlaError(f"there is no broker {node}; there are {', '.join(map(str, known))}")
    if not known[node].fenced and not force:
        raise OttlaError(
            f"broker {node} runs, and would have to be restarted to be part of the cluster again. Stop it first, or "
            "force it (--force)."
        )
    parts = [part for topic in await topics.topics(there) for part in topic.partitions]
    held = sum(node in part.replicas for part in parts)
    if held and not force:
        raise OttlaError(
            f"{held} partitions have a replica on broker {node}. Move them first: `ottla reassign plan --remove-broker "
            f"{node} --file plan.json`, then `ottla reassign run plan.json`. Or force it (--force), and they lack one."
        )
    await brokers.unregister(there, node)
    return held
