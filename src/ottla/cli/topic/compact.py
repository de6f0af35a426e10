"""`ottla topic compact`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import Column, note, output_option, print_rows
from ottla.cli.times import iso
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.cli.admin.configs import Change, ConfigEntry
    from ottla.cli.admin.session import Session
    from ottla.cli.admin.topics import TopicInfo

# By these everything that is written is due at once. The first has what is active rolled, and is taken back when that
# is done: with every record that somebody writes meanwhile it would begin another segment.
ROLLING: Final = "max.compaction.lag.ms"
EAGER: Final = {ROLLING: "1", "min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0"}
_LOOK_AGAIN_S: Final = 0.25
COLUMNS: Final = (
    Column("PARTITION", "partition"),
    Column("STATE", "state"),
    Column("CLEAN BYTES", "clean_bytes"),
    Column("DIRTY BYTES", "dirty_bytes"),
    Column("ACTIVE BYTES", "active_bytes"),
    Column("LAST SAVED", "saved_bytes"),
    Column("LAST COMPACTED", lambda row: "-" if row["last_cleaned_ms"] is None else iso(row["last_cleaned_ms"])),
)


@click.command("compact")
@click.argument("name", shell_complete=topic_names)
@click.option("--now", is_flag=True, help="Compact what is not yet, whatever the topic's configs say, and wait for it.")
@click.option("--wait", "wait_s", default=300, show_default=True, help="How many seconds to wait at most.")
@output_option
@cluster_options
def command(name: str, now: bool, wait_s: int, output: str | None, cluster: Cluster) -> None:
    """Show how clean the compacted topic NAME is; with --now, compact it.

    That is done by changing three of its configs for as long as it takes. Active segments are rolled first, so that
    afterwards there is one record of each key, and tombstones that wait for delete.retention.ms. What is written
    meanwhile is not waited for.
    """
    from ottla.cli.admin import session

    async def ask(there: Session) -> list[dict[str, Any]]:
        from ottla.cli.admin import topics

        (topic,) = await topics.topics(there, [name])
        before = await _rows(there, topic)
        if not now:
            return before
        await _compact(there, topic, wait_s, {row["partition"]: row["end_offset"] for row in before})
        after = await _rows(there, topic)
        note(f"Compacted topic {name}: {_size(before)} bytes became {_size(after)}.")
        return after

    print_rows(output, COLUMNS, session.run(cluster, ask))


def _size(rows: list[dict[str, Any]]) -> int:
    return sum(row["clean_bytes"] + row["dirty_bytes"] + row["active_bytes"] for row in rows)


async def _rows(there: Session, topic: TopicInfo) -> list[dict[str, Any]]:
    from ottla.cli.admin import compaction

    states = await compaction.states(there, [topic])
    missing = [part.number for part in topic.partitions if part.leader >= 0 and not _has(states, part.number)]
    if missing:
        raise OttlaError(
            f"the leader of partition {missing[0]} of {topic.name} does not tell how clean it is: the topic's "
            "cleanup.policy is not compact, or the broker is no Ottla"
        )
    return [{"partition": place.partition, **state} for place, state in sorted(states.items())]


def _has(states: Mapping[Any, Any], number: int) -> bool:
    return any(place.partition == number for place in states)


async def _compact(there: Session, topic: TopicInfo, wait_s: int, ends: Mapping[int, int]) -> None:
    from ottla.cli.admin import configs

    resource = configs.of_topic(topic.name)
    entries = (await configs.configs(there, [resource], list(EAGER)))[resource]
    back = [_restored(entry) for entry in entries]
    eager = [configs.Change(name, configs.Operation.SET, value) for name, value in EAGER.items()]
    await configs.alter(there, resource, eager, check_only=False)
    try:
        deadline = asyncio.get_running_loop().time() + wait_s
        await _until(there, topic, "active_base_offset", ends, deadline)
        await configs.alter(there, resource, [change for change in back if change.name == ROLLING], check_only=False)
        await _until(there, topic, "first_dirty_offset", ends, deadline)
    finally:
        await configs.alter(there, resource, back, check_only=False)


def _restored(entry: ConfigEntry) -> Change:
    from ottla.cli.admin import configs

    if entry.source == configs.DYNAMIC_TOPIC_CONFIG:
        return configs.Change(entry.name, configs.Operation.SET, entry.value)
    return configs.Change(entry.name, configs.Operation.DELETE)


async def _until(there: Session, topic: TopicInfo, what: str, ends: Mapping[int, int], deadline: float) -> None:
    """Until an offset that partitions tell of themselves has reached where each ended."""
    while True:
        rows = await _rows(there, topic)
        bad = [row["partition"] for row in rows if row["state"] == "uncleanable"]
        if bad:
            raise OttlaError(
                f"partition {bad[0]} of {topic.name} cannot be cleaned: a segment is damaged, see its broker's log"
            )
        left = [row["partition"] for row in rows if row[what] < ends.get(row["partition"], 0)]
        if not left:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise OttlaError(
                f"partition {left[0]} of {topic.name} was not clean in time: somebody may have a transaction open "
                f"(`ottla txn why {topic.name}`), or the cleaner has much to do. Give it more time with --wait"
            )
        await asyncio.sleep(_LOOK_AGAIN_S)
