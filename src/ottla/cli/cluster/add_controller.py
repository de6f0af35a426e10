"""`ottla cluster add-controller`."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.cluster_options import Address, Cluster, cluster_options
from ottla.cli.output import outcome_option, print_outcome


@click.command("add-controller")
@click.option(
    "-c", "--config", "file", type=click.Path(path_type=Path), required=True,
    help="The server.properties of the controller to add, which runs already.",
)  # fmt: skip
@outcome_option
@cluster_options
def command(file: Path, output: str | None, cluster: Cluster) -> None:
    """Make a controller that runs and follows the quorum one of its voters.

    To be run where its folders are: its directory's id is read there. It must have been formatted with
    --no-initial-controllers, for a quorum whose voters are kept in its log (KIP-853).
    """
    from ottla.cli.admin import session
    from ottla.cli.admin.quorum import add_voter
    from ottla.env.disk import PosixDisk
    from ottla.metadata import meta_properties
    from ottla.model.config import broker_config, load_properties
    from ottla.model.errors import OttlaError

    loaded = load_properties(file)
    config = broker_config(loaded.values, loaded.where)
    ends = config.listeners.advertise_controller({}, lambda: "localhost")
    if not config.is_controller or not ends:
        raise OttlaError(f"{file} is not that of a controller with a listener of its own")
    meta = meta_properties.load(PosixDisk(), config.metadata_log_dir)
    if meta is None or meta.directory_id is None:
        raise OttlaError(f"{config.metadata_log_dir} is not formatted: `ottla storage format` does it")
    directory = meta.directory_id
    listeners = [(end.name, Address(end.host, end.port)) for end in ends]
    session.run(cluster, lambda there: add_voter(there, config.node_id, directory, listeners))
    done = {"node": config.node_id, "directory": meta_properties.uuid_text(directory), "voter": True}
    print_outcome(output, done, f"Node {config.node_id} is a voter of the quorum now.")
