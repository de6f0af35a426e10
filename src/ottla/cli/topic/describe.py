"""`ottla topic describe`."""

from __future__ import annotations

from typing import Any, Final

import click

from ottla.cli.cluster import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import Column, output_option, print_rows, print_value, shown

COLUMNS: Final = (
    Column("PARTITION", "partition"),
    Column("LEADER", "leader"),
    Column("EPOCH", "leader_epoch"),
    Column("REPLICAS", "replicas"),
    Column("IN SYNC", "in_sync"),
    Column("BEGINS", "begins"),
    Column("ENDS", "ends"),
)


@click.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=topic_names)
@output_option
@cluster_options
def command(names: tuple[str, ...], output: str | None, cluster: Cluster) -> None:
    """Show partitions, replicas, offsets and configs of topics."""
    from ottla.cli.admin import session

    async def ask(there: session.Session) -> list[dict[str, Any]]:
        return await _described(there, names)

    described = session.run(cluster, ask)
    if output in ("json", "yaml"):
        print_value(output, described)
        return
    for number, topic in enumerate(described):
        if number:
            click.echo()
        click.echo(click.style(shown(topic["topic"]), bold=True))
        click.echo(f"  id          {topic['id']}")
        click.echo(f"  partitions  {len(topic['partitions'])}")
        click.echo(f"  replicas    {topic['replicas']}")
        for i, (name, value) in enumerate(topic["configs"].items()):
            click.echo(f"  {'' if i else 'configs':10}  {shown(name)}={shown(value)}")
        print_rows(output, COLUMNS, topic["partitions"])


async def _described(there: Any, names: tuple[str, ...]) -> list[dict[str, Any]]:
    from ottla.cli.admin import configs, offsets, topics
    from ottla.model.ids import uuid_text

    found = await topics.topics(there, names)
    resources = [configs.of_topic(name) for name in names]
    settings = await configs.configs(there, resources)
    described = []
    for topic in found:
        led = [part.number for part in topic.partitions if part.leader >= 0]
        begins = await offsets.offsets(there, topic, offsets.EARLIEST, led)
        ends = await offsets.offsets(there, topic, offsets.LATEST, led)
        own = settings[configs.of_topic(topic.name)]
        described.append(
            {
                "topic": topic.name,
                "id": None if topic.id is None else uuid_text(topic.id),
                "internal": topic.internal,
                "replicas": topic.replication_factor,
                "configs": {entry.name: entry.value for entry in own if entry.source == configs.DYNAMIC_TOPIC_CONFIG},
                "partitions": [
                    {
                        "partition": part.number,
                        "leader": part.leader if part.leader >= 0 else None,
                        "leader_epoch": part.leader_epoch,
                        "replicas": list(part.replicas),
                        "in_sync": list(part.isr),
                        "offline": list(part.offline),
                        "begins": begins.get(part.number),
                        "ends": ends.get(part.number),
                    }
                    for part in topic.partitions
                ],
            }
        )
    return described
