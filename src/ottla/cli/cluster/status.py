"""`ottla cluster status`."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import count, note, output_option, print_rows, print_value, shown
from ottla.cli.times import Seconds

LOOK_EVERY_S: Final = 0.25


@click.command("status")
@click.option(
    "-w", "--wait", "wait_s", type=Seconds(least=0),
    help="Wait so many seconds until it is well; the exit code is 1 if it is not by then.",
)  # fmt: skip
@click.option("--brokers", "wanted", type=click.IntRange(min=1), help="It is well only with so many brokers up.")
@output_option
@cluster_options
def command(wait_s: float | None, wanted: int | None, output: str | None, cluster: Cluster) -> None:
    """Say whether a cluster is well, and what is wrong with it.

    It is well if a controller leads, every broker that is registered is up, and every partition has a leader and all
    its replicas in sync.
    """
    told = _waited_for(cluster, wanted, wait_s)
    if output in ("json", "yaml"):
        print_value(output, told)
    elif output == "table":
        from ottla.cli.output import Column

        print_rows(output, (Column("WHAT", "what"), Column("IS", "is")), _table(told))
    else:
        for row in _table(told):
            click.echo(f"{row['what']:18}{shown(row['is'])}")
    for problem in told["problems"]:
        note(f"  ! {problem}")
    if wait_s is not None and not told["well"]:
        sys.exit(1)


def _waited_for(cluster: Cluster, wanted: int | None, wait_s: float | None) -> dict[str, Any]:
    from ottla.cli.admin import session
    from ottla.cli.cluster.health import look
    from ottla.model.errors import OttlaError

    deadline = time.monotonic() + (wait_s or 0.0)
    while True:
        is_last = time.monotonic() >= deadline
        try:
            told = session.run(cluster, lambda there: look(there, wanted))
            if told["well"] or is_last:
                return told
        except OttlaError:  # it may be just starting
            if is_last:
                raise
        time.sleep(LOOK_EVERY_S)


def _table(told: dict[str, Any]) -> list[dict[str, str]]:
    controller, brokers = told["controller"], told["brokers"]
    voters = told["voters"]
    leads = "none" if controller is None else f"node {controller}, epoch {told['controller_epoch']}"
    rows = [
        ("cluster", told["cluster_id"]),
        ("state", "well" if told["well"] else "not well"),
        ("controller", f"{leads}; {len(voters['level'])} of {count(len(voters['all']), 'voter')} level"),
        ("brokers", f"{len(brokers['up'])} of {len(brokers['registered'])} up"),
        ("topics", f"{told['topics']:,} with {count(told['partitions'], 'partition')}"),
        ("without a leader", f"{told['without_leader']:,}"),
        ("under min ISR", f"{told['under_min_isr']:,}"),
        ("under-replicated", f"{told['under_replicated']:,}"),
        ("not at preferred", f"{told['not_preferred']:,}"),
        ("being moved", f"{told['being_moved']:,}"),
    ]
    return [{"what": what, "is": value} for what, value in rows]
