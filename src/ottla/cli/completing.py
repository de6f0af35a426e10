"""What a shell offers for the word that is being typed, where a file or a cluster must be asked for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session

WITHIN_S: Final = 1.0  # a shell that hangs on Tab is worse than one that offers nothing


def profile_names(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ottla.cli import profiles
    from ottla.model.errors import OttlaError

    try:
        return [name for name in profiles.load().profiles if name.startswith(incomplete)]
    except OttlaError:
        return []


def topic_names(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def ask(there: Session) -> list[str]:
        from ottla.cli.admin.topics import topics

        hidden = not incomplete.startswith("_")
        return [topic.name for topic in await topics(there) if not (hidden and topic.internal)]

    return _asked(context, incomplete, ask)


def group_names(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    async def ask(there: Session) -> list[str]:
        from ottla.cli.admin.groups import list_groups

        return [group.id for group in await list_groups(there)]

    return _asked(context, incomplete, ask)


def _asked(context: click.Context, incomplete: str, ask: Callable[[Session], Awaitable[list[str]]]) -> list[str]:
    """What the cluster of the command line offers; nothing if it cannot be asked."""
    from ottla.cli.cluster_options import chosen_cluster
    from ottla.model.errors import OttlaError

    try:
        from ottla.cli.admin import session

        options = context.params
        cluster = chosen_cluster(context, options["bootstrap"], options.get("profile"), WITHIN_S)
        found = session.run(cluster, ask)
    except (OttlaError, click.ClickException, KeyError):
        return []
    return [name for name in found if name.startswith(incomplete)]
