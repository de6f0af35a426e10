"""What a shell offers for the word that is being typed, where a file or a cluster must be asked for it."""

from __future__ import annotations

from typing import Final

import click

WITHIN_S: Final = 1.0  # a shell that hangs on Tab is worse than one that offers nothing


def profile_names(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ottla.cli import profiles
    from ottla.model.errors import OttlaError

    try:
        return [name for name in profiles.load().profiles if name.startswith(incomplete)]
    except OttlaError:
        return []


def topic_names(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from ottla.cli.cluster import chosen_cluster
    from ottla.model.errors import OttlaError

    try:
        from ottla.cli.admin import session, topics

        options = context.params
        cluster = chosen_cluster(context, options["bootstrap"], options.get("profile"), WITHIN_S)
        found = session.run(cluster, topics.topics)
    except (OttlaError, click.ClickException, KeyError):
        return []
    hidden = not incomplete.startswith("_")
    return [topic.name for topic in found if topic.name.startswith(incomplete) and not (hidden and topic.internal)]
