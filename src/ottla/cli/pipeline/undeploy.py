"""`ottla pipeline undeploy`."""

from __future__ import annotations

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import outcome_option, print_outcome
from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean


@click.command()
@click.argument("name")
@outcome_option
@cluster_options
def command(name: str, output: str | None, cluster: Cluster) -> None:
    """Take a pipeline from the workers: it is stopped after its micro-batch. Its checkpoint stays."""
    from ottla.cli.pipeline import deployed
    from ottla.pipeline.service.records import DEPLOYED

    there = deployed.newest(cluster, DEPLOYED)
    if name not in there:
        raise OttlaError(f"there is no deployed pipeline {name}{did_you_mean(name, there)}")
    deployed.write(cluster, DEPLOYED, name, None)
    print_outcome(output, {"pipeline": name, "undeployed": True}, f"{name} is undeployed")
