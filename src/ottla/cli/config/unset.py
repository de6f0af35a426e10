"""`ottla config unset`."""

from __future__ import annotations

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.config.change import apply
from ottla.cli.config.resource import config_names, resource_arguments
from ottla.cli.output import outcome_option


@click.command("unset")
@resource_arguments
@click.argument("names", nargs=-1, required=True, metavar="CONFIG...", shell_complete=config_names)
@click.option("--check", is_flag=True, help="Only find out whether the broker would do it.")
@outcome_option
@cluster_options
def command(
    kind: str, name: str, names: tuple[str, ...], check: bool, output: str | None, cluster: Cluster
) -> None:  # fmt: skip
    """Take configs back that were set, so that what they override counts again."""
    from ottla.cli.admin.configs import Change, Operation

    apply(cluster, kind, name, [Change(each, Operation.DELETE) for each in names], check_only=check, output=output)
