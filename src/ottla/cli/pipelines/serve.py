"""`ottla pipelines serve`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import note


@click.command()
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), default=Path("ottla-pipelines"), show_default=True,
    help="For checkpoints; on storage that all workers see, so that one can go on where another was.",
)  # fmt: skip
@click.option("--name", help="Of this worker, in `ottla pipeline list`; by default host and process.")
@click.option(
    "--session-timeout", type=click.FloatRange(min=6), default=10.0, show_default=True,
    help="Seconds after which others take over from a worker that is gone without a word.",
)  # fmt: skip
@cluster_options
def command(folder: Path, name: str | None, session_timeout: float, cluster: Cluster) -> None:
    """Run deployed pipelines, until Ctrl-C.

    Start as many workers as you like: they share the pipelines, and take over those of a worker that is gone. A
    pipeline that fails is started again, each time later, up to five minutes.
    """
    from ottla.cli import client
    from ottla.pipeline.service.worker import Worker

    client.check_reachable(cluster)
    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        asked.append(number)

    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, ask)
    bootstrap = ",".join(map(str, cluster.bootstrap))
    Worker(bootstrap, folder.resolve(), name, note, session_timeout).serve(lambda: bool(asked))
