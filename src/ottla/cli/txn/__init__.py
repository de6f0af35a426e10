"""`ottla txn`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "list": ("ottla.cli.txn.list", "List transactional ids, all or by state and duration."),
    "describe": ("ottla.cli.txn.describe", "Show the producers and open transactions of transactional ids."),
    "why": ("ottla.cli.txn.why", "Say what keeps read_committed consumers of a topic from going on."),
    "find-hanging": ("ottla.cli.txn.find_hanging", "Find transactions that no coordinator will ever end."),
    "abort": ("ottla.cli.txn.abort", "Abort a transaction, and fence its producer."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """List, describe, explain and abort transactions."""
