"""`ottla down`: stops the node of a data folder and waits until it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ottla.cli.output import outcome_option, print_outcome
from ottla.cli.times import Seconds


@click.command()
@click.option(
    "--data", "folder", type=click.Path(file_okay=False, path_type=Path), default="ottla-data", show_default=True,
    help="The folder that was given to `ottla up`.",
)  # fmt: skip
@click.option("--timeout", type=Seconds(), default=30.0, show_default=True, help="Seconds to wait for it.")
@outcome_option
def command(folder: Path, timeout: float, output: str | None) -> None:
    """Stop the node of a data folder, or all nodes of its cluster. The data stay; `ottla up` starts them again."""
    from ottla.cli.pid_file import running, stop
    from ottla.cli.supervise.layout import FILE_NAME
    from ottla.model.errors import OttlaError

    folder = folder.absolute()
    node = running(folder)
    done: dict[str, Any] = {"data": str(folder), "pid": None, "address": None, "stopped": False}
    if node is None:
        if not folder.is_dir():
            raise OttlaError(f"there is no data folder {folder}; --data names another")
        print_outcome(output, done, f"No node runs on {folder}.")
        return
    try:
        stopped = stop(folder, timeout)
    except PermissionError:
        raise OttlaError(f"the node on {folder} (pid {node.pid}) belongs to another user") from None
    if not stopped:
        raise OttlaError(
            f"the node on {folder} (pid {node.pid}) has not stopped within {timeout:g} s. Wait longer with --timeout, "
            f"or `kill -9 {node.pid}`: the next start then recovers its logs."
        )
    done |= {"pid": node.pid, "address": node.address or None, "stopped": True}
    what = "all nodes" if (folder / FILE_NAME).exists() else "the node"
    print_outcome(output, done, f"Stopped {what} on {folder}{f' ({node.address})' if node.address else ''}.")
