"""`ottla topic create`."""

from __future__ import annotations

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.config_names import plain_value, with_hint
from ottla.cli.name_value import NameValue
from ottla.cli.output import count, outcome_option, print_outcome
from ottla.cli.topic.shape import PARTITIONS, REPLICAS


@click.command("create")
@click.argument("name")
@click.option(
    "-p", "--partitions", type=PARTITIONS, help="How many partitions. By default num.partitions of the broker."
)
@click.option(
    "-r", "--replication-factor", type=REPLICAS, help="How many replicas. By default default.replication.factor."
)
@click.option("-c", "--config", "configs", type=NameValue(), multiple=True, help="A config of the topic; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that is already there as it is.")
@click.option("--check", is_flag=True, help="Only find out whether the broker would create it.")
@outcome_option
@cluster_options
def command(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    check: bool,
    output: str | None,
    cluster: Cluster,
) -> None:
    """Create the topic NAME."""
    from ottla.cli.admin import session, topics

    async def ask(there: session.Session) -> tuple[topics.TopicInfo, bool]:
        if if_not_exists:
            found = [topic for topic in await topics.topics(there) if topic.name == name]
            if found:
                return found[0], True
        made = await topics.create_topic(
            there,
            name,
            -1 if partitions is None else partitions,
            -1 if replication_factor is None else replication_factor,
            {key: plain_value(key, value) for key, value in configs},
            check_only=check,
        )
        return made, False

    with with_hint([key for key, _ in configs]):
        topic, was_there = session.run(cluster, ask)
    shape = f"{count(len(topic.partitions), 'partition')}, {count(topic.replication_factor, 'replica')}"
    done = {
        "topic": name,
        "partitions": len(topic.partitions),
        "replicas": topic.replication_factor,
        "created": not was_there and not check,
    }
    verb = "Would create" if check else "Created"
    print_outcome(output, done, f"Topic {name} is already there." if was_there else f"{verb} topic {name}: {shape}.")
