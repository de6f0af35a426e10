"""`ottla dlq show`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ottla.cli import client
from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import Column, note, output_option, print_rows


@click.command()
@click.argument("topic", shell_complete=topic_names)
@click.option("-n", "--count", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@click.option("--trace", is_flag=True, help="With the trace of each, where a Python function has rejected it.")
@output_option
@cluster_options
def command(topic: str, count: int, trace: bool, output: str | None, cluster: Cluster) -> None:
    """Show the newest dead letters of a topic: what, from where, by which step of which pipeline, and why."""
    from collections import deque

    from confluent_kafka import Consumer

    from ottla.cli.dlq.letters import all_letters

    client.check_reachable(cluster)
    reading = (*client.READING, ("isolation.level", "read_committed"))
    consumer = client.make(Consumer, client.settings(cluster, reading))
    try:
        with client.told_in_a_line():
            found = deque(all_letters(cluster, topic, consumer, {}), maxlen=count)
    finally:
        consumer.close()
    if not found and output is None:
        note(f"There are no dead letters in {topic}.")
        return
    rows: list[Mapping[str, Any]] = [
        {
            "partition": one.partition,
            "offset": one.offset,
            "origin": one.origin,
            "pipeline": one.about.get("pipeline"),
            "stage": one.about.get("stage"),
            "reason": one.about.get("reason"),
            "key": _text(one.key),
            "value": _text(one.value),
            "trace": one.about.get("trace"),
        }
        for one in found
    ]
    columns = [
        Column("OFFSET", lambda row: f"{row['partition']}@{row['offset']}"),
        Column("ORIGIN", "origin"),
        Column("STAGE", "stage"),
        Column("REASON", "reason"),
        Column("KEY", "key"),
        Column("VALUE", "value"),
    ]
    print_rows(output, [*columns, Column("TRACE", "trace")] if trace else columns, rows)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")
