"""`ottla config get`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.config.resource import config_names, known_names, resource, resource_arguments
from ottla.cli.output import Column, count, is_terminal, note, output_option, print_rows
from ottla.cli.secrets import HIDDEN

if TYPE_CHECKING:
    from ottla.cli.admin.configs import ConfigEntry, Resource


def _overrides(row: Mapping[str, Any]) -> str:
    told = [f"{each['value']} ({_from(row['config'], each)})" for each in row["overrides"]]
    return " over ".join(told) or "-"


def _from(name: str, layer: Mapping[str, Any]) -> str:
    source = str(layer["source"])
    return source if layer["name"] == name else f"{source}: {layer['name']}"


COLUMNS: Final = (
    Column("CONFIG", "config"),
    Column("VALUE", "value"),
    Column("FROM", "source"),
    Column("OVER", _overrides),
)


@click.command("get")
@resource_arguments
@click.argument("names", nargs=-1, metavar="[CONFIG]...", shell_complete=config_names)
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that have their default.")
@output_option
@cluster_options
def command(
    kind: str, name: str, names: tuple[str, ...], everything: bool, output: str | None, cluster: Cluster
) -> None:
    """Show configs in force, where they come from, and what they override.

    KIND is topic, broker, broker-logger, client-metrics or group. A broker's NAME is its number, or `default` for what
    was set for all brokers. Without a CONFIG it shows those that were set somewhere.
    """
    from ottla.cli.admin import configs, session

    wanted = resource(kind, name)

    async def ask(there: session.Session) -> list[ConfigEntry]:
        return (await configs.configs(there, [wanted], names or None))[wanted]

    entries = session.run(cluster, ask)
    if names:
        _check_there(kind, wanted, names, entries)
    shown = [entry for entry in entries if names or everything or entry.source != configs.DEFAULT_CONFIG]
    if shown or output is not None:
        print_rows(output, COLUMNS, [as_row(entry) for entry in shown])
    left = len(entries) - len(shown)
    if left and is_terminal() and output is None:
        note(f"{count(left, 'other config')} {'has its' if left == 1 else 'have their'} default; --all shows them.")
    elif not shown and output is None:
        note(f"Nothing is set for {wanted}.")


def as_row(entry: ConfigEntry) -> dict[str, Any]:
    from ottla.cli.admin.configs import SOURCES

    def source(number: int) -> str:
        return SOURCES.get(number, f"source {number}")

    return {
        "config": entry.name,
        "value": entry.shown if entry.sensitive else entry.value,
        "source": source(entry.source),
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "overrides": [
            {
                "name": each.name,
                "value": HIDDEN if entry.sensitive else each.value,
                "source": source(each.source),
            }
            for each in entry.overridden
        ],
    }


def _check_there(kind: str, wanted: Resource, names: Sequence[str], entries: Sequence[ConfigEntry]) -> None:
    """A broker leaves out what it does not know."""
    from ottla.cli.config_names import hint
    from ottla.model.errors import OttlaError

    there = {entry.name for entry in entries}
    for name in names:
        if name not in there and wanted.name:  # for all brokers there is only what was set
            told = hint(name, known_names(kind)) or "; `ottla config get --all` shows all"
            raise OttlaError(f"{wanted} has no config {name}{told}")
