"""Writes docs/reference/cli.md from the commands of ottla.cli.

python tools/generate_cli_reference.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ottla.cli.main import cli

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"

HEAD = """\
<!-- Written by tools/generate_cli_reference.py from src/ottla/cli: change that, then run it. -->
# Commands

`ottla COMMAND --help` says the same. What a command was asked for goes to standard output; remarks and errors go to
standard error. Lists are tables on a terminal, and lines separated by tabs when they go elsewhere; `--output json` and
`--output yaml` tell more. The exit code is 0; 1 if what was asked for could not be done; 2 if the command was not
understood; 130 after Ctrl-C in the middle of something.

Which cluster: `-b` or `-P` on the command line, else `OTTLA_BOOTSTRAP` or `OTTLA_PROFILE`, else the profile that
`ottla profile use` chose, else 127.0.0.1:9092.
"""


def render() -> str:
    context = click.Context(cli, info_name="ottla")
    return HEAD + "".join(_section(command, inner) for command, inner in _commands(cli, context))


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, click.Group):
            yield from _commands(command, inner)
        else:
            yield command, inner


def _section(command: click.Command, context: click.Context) -> str:
    arguments = " ".join(_argument(param) for param in command.params if isinstance(param, click.Argument))
    usage = f"{context.command_path} [OPTIONS] {arguments}".strip()
    text = " ".join((command.help or "").split())
    rows = [_row(param) for param in command.params if isinstance(param, click.Option)]
    table = "\n".join(("| option | default | meaning |", "|---|---|---|", *rows)) + "\n" if rows else ""
    return f"\n## {context.command_path}\n\n    {usage}\n\n{text}\n" + (f"\n{table}" if table else "")


def _argument(argument: click.Argument) -> str:
    name = argument.metavar or str(argument.name).upper()
    return name if argument.required or argument.nargs != 1 else f"[{name}]"


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if not option.is_flag:
        names += f" *{_metavar(option)}*"
    meaning = option.help or ""
    if isinstance(option.envvar, str):
        meaning += f" Or by the environment: `{option.envvar}`."
    if option.required:
        meaning = f"{meaning} Required."
    return f"| {names} | {_default(option)} | {meaning} |".replace("\\n, \\t", "`\\n`, `\\t`")


def _metavar(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return " or ".join(map(str, option.type.choices))
    return option.metavar or str(option.type.name).upper().replace(" RANGE", "")


def _default(option: click.Option) -> str:
    default: Any = option.default
    if option.is_flag or option.required or option.multiple or not isinstance(default, str | int | float):
        return ""
    return f"`{default}`"


def main() -> None:
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(render())


if __name__ == "__main__":
    main()
