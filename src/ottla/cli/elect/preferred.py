"""`ottla elect preferred`."""

from __future__ import annotations

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.elect.electing import Choice, choice_options, elect
from ottla.cli.output import output_option
from ottla.cli.scope import Scope


@click.command("preferred")
@choice_options
@output_option
@cluster_options
def command(scopes: tuple[Scope, ...], everything: bool, output: str | None, cluster: Cluster) -> None:
    """Give partitions back to the first of their replicas, which spreads the work as it was meant to be.

    A cluster does so by itself every few minutes, unless auto.leader.rebalance.enable is off. Only a replica that is in
    sync is elected.
    """
    from ottla.cli.admin.elections import Election

    choice = Choice(scopes, everything)
    choice.check()
    elect(cluster, output, Election.PREFERRED, choice)
