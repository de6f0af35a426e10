"""The option --log-format of the commands that run a node."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.choices import Choice

log_format_option: Final = click.option(
    "--log-format", type=Choice(("human", "json")), envvar="OTTLA_LOG_FORMAT", show_envvar=True,
    help="How the node's log is written: human (with colour on a terminal), or json with one object a line.",
)  # fmt: skip


def log_format_config(chosen: str | None) -> dict[str, str]:
    return {} if chosen is None else {"ottla.log.format": chosen}
