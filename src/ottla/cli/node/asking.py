"""What the commands about single nodes share: asking the supervisor, and telling what it did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ottla.cli.output import note, outcome_option, print_outcome
from ottla.cli.times import Seconds

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_S = 60.0


def data_option(function: F) -> F:
    """Gives a command the argument `folder`."""
    return click.option(
        "--data", "folder", type=click.Path(file_okay=False, path_type=Path), default="ottla-data", show_default=True,
        help="The folder that was given to `ottla up`.",
    )(function)  # fmt: skip


def node_command(name: str, text: str, done: str) -> click.Command:
    """One that asks for something of a node, and says when it is done."""

    @click.command(name, help=text)
    @click.argument("number", type=int, metavar="NODE", shell_complete=_nodes)
    @data_option
    @click.option("--timeout", type=Seconds(), default=DEFAULT_S, show_default=True, help="Seconds to wait for it.")
    @outcome_option
    def command(number: int, folder: Path, timeout: float, output: str | None) -> None:
        from ottla.cli.supervise.control import ask

        told = ask(folder.absolute(), name, number, timeout)
        row = next(node for node in told["nodes"] if node["node"] == number)
        where = f" at {row['address']}" if row["state"] == "up" else ""
        print_outcome(output, row, f"{done.format(number)}{where}.")
        if told["without_quorum"]:
            note(
                f"Most voters of the metadata quorum are down ({told['without_quorum']}): nothing can be elected or "
                "changed until most voters run again."
            )

    return command


def _nodes(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ottla.cli.supervise.layout import load
    from ottla.model.errors import OttlaError

    try:
        layout = load(Path(context.params.get("folder") or "ottla-data"))
    except OttlaError:
        return []
    return [str(node.id) for node in layout.nodes if str(node.id).startswith(incomplete)] if layout else []
