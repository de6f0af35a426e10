"""Groups of commands: imported when used, and helpful when mistyped."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

Commands = Mapping[str, tuple[str, str]]
"""By name: the module, whose attribute `command` it is, and its line of help."""


class SuggestingGroup(click.Group):
    """A mistyped command is answered with the ones that look like it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            from ottla.model.near_miss import did_you_mean  # only when it is needed: commands answer at once

            ctx.fail(f"There is no command {args[0]!r}{did_you_mean(args[0], known, cutoff=0.5) or '.'}")
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    def __init__(self, *args: Any, commands: Commands, **more: Any) -> None:
        super().__init__(*args, **more)
        self._table = commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        command = import_module(self._table[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """As click does, but without importing every command for its line of help."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=text) for name, (_, text) in self._table.items() if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]
