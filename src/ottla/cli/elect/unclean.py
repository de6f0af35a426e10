"""`ottla elect unclean`."""

from __future__ import annotations

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.elect.electing import Choice, choice_options, elect
from ottla.cli.output import may_go_on, output_option
from ottla.cli.scope import Scope


@click.command("unclean")
@choice_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@cluster_options
def command(scopes: tuple[Scope, ...], everything: bool, yes: bool, output: str | None, cluster: Cluster) -> None:
    """Let a replica that is not in sync lead, where no leader is left. Records that it does not have are lost.

    First try to bring a broker back that has all of them: `ottla topic describe --unavailable` shows the partitions
    without a leader, and who is eligible.
    """
    from ottla.cli.admin.elections import Election

    choice = Choice(scopes, everything)
    choice.check()
    may_go_on("Records that the new leaders do not have are lost, also acknowledged ones. Elect them?", yes)
    elect(cluster, output, Election.UNCLEAN, choice)
