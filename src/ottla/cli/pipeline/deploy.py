"""`ottla pipeline deploy`."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import outcome_option, print_outcome
from ottla.cli.pipeline.spec_argument import loaded, spec_argument
from ottla.model.errors import OttlaError


@click.command()
@spec_argument
@outcome_option
@cluster_options
def command(file: Path, output: str | None, cluster: Cluster) -> None:
    """Give a pipeline to the workers (`ottla pipelines serve`), after a check; or a new version of it.

    Its spec, and the Python files beside it that its steps need, are kept in the topic ottla-pipelines. Other modules
    must be installed where workers run, and what ${NAME} stands for must be in their environment.
    """
    from ottla.cli.pipeline import deployed
    from ottla.pipeline import checking
    from ottla.pipeline.service import records

    bootstrap = ",".join(map(str, cluster.bootstrap))
    spec = loaded(file, bootstrap)
    if found := [one for one in checking.problems(spec) if not one.is_doubt]:
        raise OttlaError("\n".join(spec.told(found)))
    records.make_topics(bootstrap)
    one = records.of_spec(spec, file)
    deployed.write(cluster, records.DEPLOYED, spec.name, one.to_json())
    done = {"pipeline": spec.name, "modules": sorted(one.modules)}
    print_outcome(output, done, f"{spec.name} is deployed; `ottla pipeline list` shows how it is doing")
