"""The argument for groups, and which are meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli.completing import group_names

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session

F = TypeVar("F", bound=Callable[..., Any])


def groups_argument(function: F) -> F:
    """Gives a command the arguments `groups` and `every`."""
    function = click.option("-a", "--all", "--all-groups", "every", is_flag=True, help="All groups.")(function)
    return click.argument("groups", nargs=-1, metavar="GROUP...", shell_complete=group_names)(function)


def check(groups: tuple[str, ...], every: bool) -> None:
    if every == bool(groups):
        raise click.UsageError("give either the names of groups or --all")


async def chosen(there: Session, groups: tuple[str, ...]) -> list[str]:
    """The named groups, without repetitions; all that consumers make if none are named."""
    from ottla.cli.admin.groups import CLASSIC, CONSUMER, list_groups

    if groups:
        return list(dict.fromkeys(groups))
    return [
        group.id
        for group in await list_groups(there)
        if group.type in (None, CLASSIC, CONSUMER) and group.protocol_type in ("", "consumer")
    ]
