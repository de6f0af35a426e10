"""`ottla topic delete`."""

from __future__ import annotations

import sys

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import is_terminal, may_go_on, outcome_option, print_outcome


@click.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=topic_names)
@click.option("-y", "--yes", is_flag=True, help="Do not ask on a terminal.")
@outcome_option
@cluster_options
def command(names: tuple[str, ...], yes: bool, output: str | None, cluster: Cluster) -> None:
    """Delete topics and all their records."""
    from ottla.cli.admin import session, topics

    if sys.stdin.isatty() and is_terminal():  # a script that says delete means it
        may_go_on(f"Delete {', '.join(names)} with all records?", yes)
    outcome = session.run(cluster, lambda there: topics.delete_topics(there, names))
    rows = [
        {"topic": name, "deleted": refused is None, "reason": None if refused is None else str(refused)}
        for name, refused in outcome.items()
    ]
    sentences = [
        f"Deleted topic {name}." if refused is None else f"ottla: cannot delete topic {name}: {refused}"
        for name, refused in outcome.items()
    ]
    print_outcome(output, rows, *sentences)
    if any(outcome.values()):
        sys.exit(1)
