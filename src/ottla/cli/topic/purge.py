"""`ottla topic purge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import Column, count, may_go_on, note, output_option, print_rows
from ottla.cli.partitions import chosen, partitions_option
from ottla.cli.times import Time, iso

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.cli.admin.topics import TopicInfo

COLUMNS: Final = (
    Column("PARTITION", "partition"),
    Column("BEGAN", "began"),
    Column("BEGINS", "begins"),
    Column("ENDS", "ends"),
)


@click.command("purge")
@click.argument("name", shell_complete=topic_names)
@partitions_option
@click.option("-o", "--before-offset", type=click.IntRange(min=0), help="Keep the records from this offset on.")
@click.option("-t", "--before-time", type=Time(), help="Keep the records from this time on, such as `2h ago`.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@cluster_options
def command(
    name: str,
    only: tuple[int, ...],
    before_offset: int | None,
    before_time: int | None,
    yes: bool,
    output: str | None,
    cluster: Cluster,
) -> None:
    """Delete the records of the topic NAME, all or those before an offset or a time; the topic stays."""
    from ottla.cli.admin import session

    if before_offset is not None and before_time is not None:
        raise click.UsageError("--before-offset and --before-time exclude each other")

    async def ask(there: Session) -> list[dict[str, int]]:
        plan = await _look(there, name, only, before_offset, before_time)
        if not plan.doomed:
            note(f"There is nothing to delete in topic {name}.")
            return []
        told = count(plan.doomed, "offset") + (f" from before {iso(before_time)}" if before_time is not None else "")
        may_go_on(f"Delete {told} of {name} ({plan.staying} stay)?", yes)
        rows = await _delete(there, plan)
        note(f"Deleted {told} of topic {name}.")
        return rows

    rows = session.run(cluster, ask)
    if rows or output is not None:
        print_rows(output, COLUMNS, rows)


class _Plan(NamedTuple):
    """By partition: where it begins, from where on records stay, where it ends."""

    topic: TopicInfo
    begins: dict[int, int]
    keep_from: dict[int, int]
    ends: dict[int, int]

    @property
    def doomed(self) -> int:
        return sum(self.keep_from[number] - first for number, first in self.begins.items())

    @property
    def staying(self) -> int:
        return sum(last - self.keep_from[number] for number, last in self.ends.items())


async def _look(
    there: Session, name: str, only: tuple[int, ...], before_offset: int | None, before_time: int | None
) -> _Plan:
    from ottla.cli.admin import offsets, topics

    (topic,) = await topics.topics(there, [name])
    numbers = chosen(name, [partition.number for partition in topic.partitions], only)
    begins = await offsets.offsets(there, topic, offsets.EARLIEST, numbers)
    ends = await offsets.offsets(there, topic, offsets.LATEST, numbers)
    keep_from = dict(ends)
    if before_time is not None:
        found = await offsets.offsets(there, topic, before_time, numbers)
        keep_from |= {number: offset for number, offset in found.items() if offset >= 0}
    elif before_offset is not None:
        keep_from = dict.fromkeys(numbers, before_offset)
    return _Plan(topic, begins, {n: max(begins[n], min(keep_from[n], ends[n])) for n in numbers}, ends)


async def _delete(there: Session, plan: _Plan) -> list[dict[str, int]]:
    from ottla.cli.admin import offsets

    before = {number: offset for number, offset in plan.keep_from.items() if offset > plan.begins[number]}
    now = plan.begins | await offsets.delete_records(there, plan.topic, before)
    return [
        {"partition": number, "began": plan.begins[number], "begins": now[number], "ends": plan.ends[number]}
        for number in sorted(now)
    ]
