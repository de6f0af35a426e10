"""`ottla cluster remove-controller`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import outcome_option, print_outcome

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session


@click.command("remove-controller")
@click.argument("node", type=int)
@outcome_option
@cluster_options
def command(node: int, output: str | None, cluster: Cluster) -> None:
    """Take the controller NODE out of the quorum's voters, whether it runs or not. Afterwards it can be stopped."""
    from ottla.cli.admin import session
    from ottla.model.ids import uuid_text

    directory = session.run(cluster, lambda there: _remove(there, node))
    done = {"node": node, "directory": uuid_text(directory), "voter": False}
    print_outcome(output, done, f"Node {node} is no voter of the quorum any more.")


async def _remove(there: Session, node: int) -> UUID:
    from ottla.cli.admin.quorum import quorum, remove_voter
    from ottla.model.errors import OttlaError

    voters = {voter.id: voter for voter in (await quorum(there)).voters}
    if node not in voters:
        raise OttlaError(f"node {node} is no voter; voters are {', '.join(map(str, voters))}")
    directory = voters[node].directory
    if directory is None:
        raise OttlaError(
            "the voters of this quorum stand in controller.quorum.voters of its nodes: they cannot be changed while it "
            "runs"
        )
    await remove_voter(there, node, directory)
    return directory
