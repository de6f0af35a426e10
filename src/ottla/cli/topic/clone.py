"""`ottla topic clone`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.config_names import plain_value, with_hint
from ottla.cli.name_value import NameValue
from ottla.cli.output import count, note, outcome_option, print_outcome
from ottla.cli.topic.shape import REPLICAS

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.cli.admin.topics import TopicInfo


@click.command("clone")
@click.argument("source", shell_complete=topic_names)
@click.argument("target")
@click.option("--data", is_flag=True, help="Copy the records that are there now: partition, key, value, headers, time.")
@click.option(
    "-r", "--replication-factor", type=REPLICAS, help="How many replicas. By default as many as the source has."
)  # fmt: skip
@click.option("-c", "--config", "given", type=NameValue(), multiple=True, help="Another config than the source's.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@outcome_option
@cluster_options
def command(
    source: str,
    target: str,
    data: bool,
    replication_factor: int | None,
    given: tuple[tuple[str, str], ...],
    quiet: bool,
    output: str | None,
    cluster: Cluster,
) -> None:
    """Make a topic TARGET with the partitions and configs of SOURCE; with --data, its records too.

    Offsets are not kept: they count from 0 in the copy. Records of aborted transactions are left out.
    """
    from ottla.cli.admin import configs, session, topics

    async def ask(there: Session) -> tuple[TopicInfo, dict[str, str]]:
        (topic,) = await topics.topics(there, [source])
        resource = configs.of_topic(source)
        entries = (await configs.configs(there, [resource]))[resource]
        own = {entry.name: entry.value or "" for entry in entries if entry.source == configs.DYNAMIC_TOPIC_CONFIG} | {
            name: plain_value(name, value) for name, value in given
        }
        replicas = topic.replication_factor if replication_factor is None else replication_factor
        await topics.create_topic(there, target, len(topic.partitions), replicas, own, check_only=False)
        return topic, own

    with with_hint([name for name, _ in given]):
        topic, own = session.run(cluster, ask)
    done = {"topic": target, "source": source, "partitions": len(topic.partitions), "configs": own, "records": None}
    shape = f"{count(len(topic.partitions), 'partition')}, {count(len(own), 'config')} set"
    if not data:
        print_outcome(output, done, f"Created topic {target}: {shape}.")
        return
    note(f"Created topic {target}: {shape}.")  # before the copying, which may take a while
    from ottla.cli.topic.copying import copy_records

    done["records"] = copied = copy_records(cluster, source, target, quiet=quiet)
    print_outcome(output, done, f"Copied {count(copied, 'record')} from {source} to {target}.")
