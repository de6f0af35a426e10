"""`ottla topic alter`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.config_names import plain_value, with_hint
from ottla.cli.name_value import NameValue
from ottla.cli.output import count, may_go_on, note, outcome_option, print_outcome
from ottla.cli.topic.shape import MOST_PARTITIONS

if TYPE_CHECKING:
    from ottla.cli.admin.configs import Change


@click.command("alter")
@click.argument("name", shell_complete=topic_names)
@click.option(
    "-p", "--partitions", type=click.IntRange(1, MOST_PARTITIONS), help="How many partitions it shall have; only more."
)  # fmt: skip
@click.option("-c", "--config", "given", type=NameValue(), multiple=True, help="Sets a config; repeatable.")
@click.option("-d", "--default", "unset", multiple=True, metavar="CONFIG", help="Unsets a config; repeatable.")
@click.option("--check", is_flag=True, help="Only find out whether the broker would do it.")
@click.option("-y", "--yes", is_flag=True, help="Add partitions without asking.")
@outcome_option
@cluster_options
def command(
    name: str,
    partitions: int | None,
    given: tuple[tuple[str, str], ...],
    unset: tuple[str, ...],
    check: bool,
    yes: bool,
    output: str | None,
    cluster: Cluster,
) -> None:
    """Add partitions to the topic NAME, or change its configs.

    Adding partitions cannot be undone, and records with a key then go to other partitions than before: of one key, the
    new records may be read before the old ones.
    """
    from ottla.cli.admin import configs, session, topics

    if partitions is None and not given and not unset:
        raise click.UsageError("nothing to change: give --partitions, --config or --default")

    async def ask(there: session.Session) -> int:
        (topic,) = await topics.topics(there, [name])
        before = len(topic.partitions)
        if partitions is not None:
            _check_more(name, before, partitions)
            if not check:
                note(_warning(name, before, partitions))
                may_go_on(f"Give {name} {partitions} partitions?", yes)
        resource = configs.of_topic(name)
        changes = _changes(given, unset)
        for check_only in (True, False)[: 1 if check else 2]:  # two requests: neither is done if one would be refused
            if changes:
                await configs.alter(there, resource, changes, check_only=check_only)
            if partitions is not None:
                await topics.add_partitions(there, name, partitions, check_only=check_only)
        return before

    with with_hint([*(key for key, _ in given), *unset]):
        before = session.run(cluster, ask)
    told = [] if partitions is None else [f"{before} to {count(partitions, 'partition')}"]
    if given or unset:
        told.append(count(len(given) + len(unset), "config"))
    done = {
        "topic": name,
        "partitions_before": before,
        "partitions": partitions or before,
        "configs": [*(key for key, _ in given), *unset],
        "changed": not check,
    }
    print_outcome(output, done, f"{'Would change' if check else 'Changed'} topic {name}: {', '.join(told)}.")


def _changes(given: tuple[tuple[str, str], ...], unset: tuple[str, ...]) -> list[Change]:
    from ottla.cli.admin.configs import Change, Operation

    sets = [Change(name, Operation.SET, plain_value(name, value)) for name, value in given]
    return sets + [Change(name, Operation.DELETE) for name in unset]


def _check_more(name: str, before: int, wanted: int) -> None:
    from ottla.model.errors import OttlaError

    if wanted == before:
        raise OttlaError(f"topic {name} has {count(before, 'partition')} already")
    if wanted < before:
        raise OttlaError(
            f"topic {name} has {count(before, 'partition')}, and a topic cannot lose any. "
            "`ottla topic create` makes another one with fewer, and clients move over to it."
        )


def _warning(name: str, before: int, wanted: int) -> str:
    stay = _share_that_stays(before, wanted)
    return (
        f"Topic {name} goes from {before} to {count(wanted, 'partition')}. Which partition a key belongs to follows "
        f"from their number: {stay:.0%} of the keys stay where they are, the others go to another partition from now "
        "on, while their old records stay. Who relies on the order of a key's records, or keeps state by partition, "
        "should have read everything before. It cannot be undone."
    )


def _share_that_stays(before: int, wanted: int) -> float:
    """Of hashes taken modulo the number of partitions."""
    from math import lcm

    whole = lcm(before, wanted)
    if whole > 1_000_000:
        return 1 / max(before, wanted)
    return sum(n % before == n % wanted for n in range(whole)) / whole
