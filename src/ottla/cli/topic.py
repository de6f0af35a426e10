"""`ottla topic`: create, list, describe, delete."""

from __future__ import annotations

import sys

import click

from ottla.cli.address import Address, bootstrap_option
from ottla.cli.main import SuggestingGroup
from ottla.cli.name_value import NameValue
from ottla.cli.output import is_terminal, note, print_table


@click.group(cls=SuggestingGroup)
def command() -> None:
    """Create, list, describe and delete topics."""


@command.command("list")
@bootstrap_option
@click.option("--internal", is_flag=True, help="Show the cluster's own topics too.")
def list_topics(bootstrap: tuple[Address, ...], internal: bool) -> None:
    """List the topics: a table on a terminal, otherwise one name a line."""
    from ottla.cli import admin

    topics = [topic for topic in admin.run(bootstrap, lambda ask: ask.topics()) if internal or not topic.internal]
    if not is_terminal():
        for topic in topics:
            click.echo(topic.name)
    elif topics:
        rows = [(topic.name, len(topic.partitions), topic.replication_factor) for topic in topics]
        print_table(("TOPIC", "PARTITIONS", "REPLICAS"), rows)
    else:
        note("There are no topics yet; `ottla topic create NAME` makes one.")


@command.command()
@click.argument("name")
@click.option("-p", "--partitions", type=int, help="How many partitions. By default num.partitions of the broker.")
@click.option("-r", "--replication-factor", type=int, help="How many replicas. By default default.replication.factor.")
@click.option("-c", "--config", "configs", type=NameValue(), multiple=True, help="A config of the topic; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that is already there as it is.")
@click.option("--check", is_flag=True, help="Only find out whether the broker would create it.")
@bootstrap_option
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    check: bool,
    bootstrap: tuple[Address, ...],
) -> None:
    """Create the topic NAME."""
    from ottla.cli import admin

    async def ask(there: admin.Admin) -> admin.TopicInfo | None:
        if if_not_exists and name in {topic.name for topic in await there.topics()}:
            return None
        return await there.create_topic(
            name,
            -1 if partitions is None else partitions,
            -1 if replication_factor is None else replication_factor,
            dict(configs),
            check_only=check,
        )

    made = admin.run(bootstrap, ask)
    if made is None:
        note(f"Topic {name} is already there.")
        return
    shape = f"{_count(len(made.partitions), 'partition')}, {_count(made.replication_factor, 'replica')}"
    note(f"{'Would create' if check else 'Created'} topic {name}: {shape}.")


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@bootstrap_option
def describe(names: tuple[str, ...], bootstrap: tuple[Address, ...]) -> None:
    """Show partitions, replicas and configs of topics."""
    from ottla.cli import admin

    async def ask(there: admin.Admin) -> tuple[list[admin.TopicInfo], dict[str, dict[str, str]]]:
        return await there.topics(names), await there.topic_configs(names)

    topics, configs = admin.run(bootstrap, ask)
    for number, topic in enumerate(topics):
        if number:
            click.echo()
        click.echo(click.style(topic.name, bold=True))
        click.echo(f"  id          {_kafka_id(topic.id)}")
        click.echo(f"  partitions  {len(topic.partitions)}")
        click.echo(f"  replicas    {topic.replication_factor}")
        for i, (name, value) in enumerate(sorted(configs[topic.name].items())):
            click.echo(f"  {'' if i else 'configs':10}  {name}={value}")
        rows = [
            (part.number, _node(part.leader), part.leader_epoch, _nodes(part.replicas), _nodes(part.isr))
            for part in topic.partitions
        ]
        print_table(("PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC"), rows)


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask on a terminal.")
@bootstrap_option
def delete(names: tuple[str, ...], yes: bool, bootstrap: tuple[Address, ...]) -> None:
    """Delete topics and all their records."""
    from ottla.cli import admin

    if not yes and sys.stdin.isatty() and is_terminal():
        click.confirm(f"Delete {', '.join(names)} with all records?", abort=True)
    outcome = admin.run(bootstrap, lambda ask: ask.delete_topics(names))
    for name, reason in outcome.items():
        note(f"Deleted topic {name}." if reason is None else f"ottla: cannot delete topic {name}: {reason}")
    if any(outcome.values()):
        sys.exit(1)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _node(number: int) -> str:
    return "none" if number < 0 else str(number)


def _nodes(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers)) or "none"


def _kafka_id(value: object) -> str:
    from base64 import urlsafe_b64encode
    from uuid import UUID

    return urlsafe_b64encode(value.bytes).decode().rstrip("=") if isinstance(value, UUID) else "-"
