"""The `ottla` command. Each subcommand is imported when it is used, so that help and small commands answer at once."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

import click

from ottla import __version__

COMMANDS: Final = {
    # name: (module, what --help says without importing it)
    "up": ("ottla.cli.up", "Start a node here and now: a Kafka broker on 127.0.0.1:9092."),
    "down": ("ottla.cli.down", "Stop the node of a data folder."),
    "broker": ("ottla.cli.broker", "Run a node as a server.properties file says."),
    "storage": ("ottla.cli.storage", "Prepare the folders of a node."),
    "topic": ("ottla.cli.topic", "Create, list, describe and delete topics."),
    "produce": ("ottla.cli.produce", "Write records to a topic, from arguments or lines of input."),
    "consume": ("ottla.cli.consume", "Read records of a topic."),
}


class SuggestingGroup(click.Group):
    """A mistyped command is answered with the ones that look like it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            close = get_close_matches(args[0], known, n=2, cutoff=0.5)
            hint = f"; did you mean {' or '.join(close)}?" if close else "."
            ctx.fail(f"There is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """The commands of COMMANDS; a command is the attribute `command` of its module."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.group(cls=LazyGroup, context_settings=SETTINGS)
@click.version_option(__version__, "-V", "--version", message="ottla %(version)s")
def cli() -> None:
    """Kafka in Python: a broker that any Kafka client works with, and the tools around it."""


def main() -> None:
    try:
        cli(prog_name="ottla")
    except Exception as error:
        # imported only now: the module brings Kafka's error codes along, which `ottla --help` does not need
        from ottla.model.errors import OttlaError

        if not isinstance(error, OttlaError):
            raise
        click.echo(f"ottla: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
