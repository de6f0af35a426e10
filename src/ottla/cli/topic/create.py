"""`ottla topic create`."""

from __future__ import annotations

import click

from ottla.cli.cluster import Cluster, cluster_options
from ottla.cli.config_names import plain_value, with_hint
from ottla.cli.name_value import NameValue
from ottla.cli.output import count, note


@click.command("create")
@click.argument("name")
@click.option("-p", "--partitions", type=int, help="How many partitions. By default num.partitions of the broker.")
@click.option("-r", "--replication-factor", type=int, help="How many replicas. By default default.replication.factor.")
@click.option("-c", "--config", "configs", type=NameValue(), multiple=True, help="A config of the topic; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that is already there as it is.")
@click.option("--check", is_flag=True, help="Only find out whether the broker would create it.")
@cluster_options
def command(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[tuple[str, str], ...],
    if_not_exists: bool,
    check: bool,
    cluster: Cluster,
) -> None:
    """Create the topic NAME."""
    from ottla.cli.admin import session, topics

    async def ask(there: session.Session) -> topics.TopicInfo | None:
        if if_not_exists and name in {topic.name for topic in await topics.topics(there)}:
            return None
        return await topics.create_topic(
            there,
            name,
            -1 if partitions is None else partitions,
            -1 if replication_factor is None else replication_factor,
            {key: plain_value(key, value) for key, value in configs},
            check_only=check,
        )

    with with_hint([key for key, _ in configs]):
        made = session.run(cluster, ask)
    if made is None:
        note(f"Topic {name} is already there.")
        return
    shape = f"{count(len(made.partitions), 'partition')}, {count(made.replication_factor, 'replica')}"
    note(f"{'Would create' if check else 'Created'} topic {name}: {shape}.")
