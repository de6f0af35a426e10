"""`ottla broker`: a node as a server.properties file says."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.log_format import log_format_config, log_format_option
from ottla.cli.name_value import NameValue
from ottla.cli.output import note
from ottla.cli.running import BEFORE_START, CtrlC, run_node


@click.command()
@click.option(
    "-c", "--config", "file", type=click.Path(path_type=Path), required=True, help="A server.properties, as Kafka's."
)
@click.option(
    "--cores", type=click.IntRange(1, 1024), default=1, show_default=True,
    help="Run so many nodes of this config, for as many cores: ids and ports count on, folders are core-0, core-1 ...",
)  # fmt: skip
@log_format_option
@click.option("--set", "given", type=NameValue(), multiple=True, help="Overrides a line of the file; repeatable.")
def command(file: Path, cores: int, log_format: str | None, given: tuple[tuple[str, str], ...]) -> None:
    """Run a node as a server.properties file says. Its folders must have been formatted: `ottla storage format`.

    A node uses one core. With --cores a machine runs several, each a process: node k has the file's node.id + k, its
    ports + k, and the folder core-k in each of its log dirs; only the first is a controller too, if the file says so.
    They are known to share a machine, so replicas of a partition go to others first.
    """
    ctrl_c = CtrlC()

    from ottla.cli.format_dirs import check_formatted
    from ottla.cli.up import warn_unknown
    from ottla.model.config import broker_config, load_properties

    loaded = load_properties(file)
    overrides = log_format_config(log_format) | dict(given)
    where = {**loaded.where, **{name: f"--set {name}" for name in overrides}}
    values = {**loaded.values, **overrides}
    if cores > 1:
        from ottla.cli.supervise.cores import run_cores

        run_cores(file, values, where, cores)
        return
    config = broker_config(values, where)
    warn_unknown(config, where)
    check_formatted(config, file)

    if not run_node(config, lambda address: note(f"Node {config.node_id} is up at {address}."), ctrl_c):
        note(BEFORE_START)
