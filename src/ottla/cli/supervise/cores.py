"""`ottla broker --cores`: the nodes of one config under one supervisor, which tells what happens on stderr."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ottla.cli.cores import check_addresses, for_core
from ottla.cli.output import note
from ottla.cli.supervise.child import Child, State
from ottla.cli.supervise.layout import Layout, Place


def run_cores(file: Path, values: Mapping[str, str], where: Mapping[str, str], cores: int) -> None:
    """Returns when all have stopped; the exit code is 1 if one has ended by itself."""
    import ottla.broker.run  # noqa: F401  # so that all nodes have it from the start
    from ottla.cli.format_dirs import check_formatted
    from ottla.cli.supervise.supervisor import Supervisor
    from ottla.cli.up import warn_unknown
    from ottla.model.config import broker_config

    check_addresses(values, cores)
    configs = [broker_config(for_core(values, core), where) for core in range(cores)]
    warn_unknown(configs[0], where)
    for config in configs:
        check_formatted(config, file, cores=cores)
    places = [Place(config.node_id, is_broker=config.is_broker, is_voter=config.is_controller) for config in configs]

    def show(children: Sequence[Child], line: str | None) -> None:
        if line is not None:
            note(line)

    by_id = {config.node_id: config for config in configs}
    supervisor = Supervisor(None, Layout("", tuple(places)), by_id, show, lambda: None, lambda config: None)
    supervisor.run(lambda: note(_how_many_are_up(supervisor.children.values())))
    if any(child.state is State.ENDED for child in supervisor.children.values()):
        sys.exit(1)


def _how_many_are_up(children: Collection[Child]) -> str:
    missing = [str(child.place.id) for child in children if child.state is not State.UP]
    if not missing:
        return f"{len(children)} nodes are up."
    return f"{len(children) - len(missing)} of {len(children)} nodes are up, all but {', '.join(missing)}."
