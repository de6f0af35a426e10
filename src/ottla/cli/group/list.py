"""`ottla group list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, is_terminal, note, output_option, print_rows
from ottla.model.near_miss import did_you_mean

STATES = ("Empty", "Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
TYPES = ("Classic", "Consumer", "Share", "Streams")


class AnyOf(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """One or several of some words, separated by commas, in any case."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = {word.lower(): word for word in words}
        self.name = words[0].lower() + ",..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        found = [part.strip() for part in str(value).split(",") if part.strip()]
        for part in found:
            if part.lower() not in self._words:
                words = list(self._words.values())
                close = did_you_mean(part, words, cutoff=0.5)
                self.fail(f"{part!r} must be one of {', '.join(words)}{close or '.'}", param, ctx)
        return tuple(self._words[part.lower()] for part in found)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self._words.values() if word.lower().startswith(incomplete.lower())]


@click.command("list")
@click.option("-s", "--state", "states", type=AnyOf(STATES), default=(), help="Only those in these states.")
@click.option("-t", "--type", "types", type=AnyOf(TYPES), default=(), help="Only those of these types.")
@output_option
@cluster_options
def command(states: tuple[str, ...], types: tuple[str, ...], output: str | None, cluster: Cluster) -> None:
    """List the groups: a table on a terminal, otherwise one name a line."""
    from ottla.cli.admin import groups, session

    found = session.run(cluster, lambda there: groups.list_groups(there, states, types))
    if output is None and not is_terminal():
        for group in found:
            click.echo(group.id)
        return
    if output is None and not found:
        note(
            "There are no such groups."
            if states or types
            else "There are no groups yet; a consumer with a group.id makes one (`ottla consume TOPIC --group NAME`)."
        )
        return
    rows = [
        {
            "group": group.id,
            "type": group.type,
            "state": group.state or None,
            "protocol": group.protocol_type or None,
            "coordinator": group.coordinator,
        }
        for group in found
    ]
    columns = (
        Column("GROUP", "group"),
        Column("TYPE", "type"),
        Column("STATE", "state"),
        Column("PROTOCOL", "protocol"),
        Column("COORDINATOR", "coordinator"),
    )
    print_rows(output, columns, rows)
