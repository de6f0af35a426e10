"""`ottla reassign run`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, count, note, output_option, print_rows
from ottla.cli.reassign.options import Rate, interval_option, keep_throttles_option

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.cli.reassign.file import Plan
    from ottla.model.names import TopicPartition

COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("FROM", "before"),
    Column("TO", "to"),
    Column("OUTCOME", "outcome"),
)
ELSEWHERE: Final = "cancelled meanwhile, or moved elsewhere"
LOOKS: Final = 10
LOOK_EVERY_S: Final = 0.2


@click.command("run")
@click.argument("path", metavar="FILE")
@click.option("--throttle", type=Rate(), help="Copy at most so much a second: 50MB, 10MiB, or a number of bytes.")
@click.option("--rollback", metavar="FILE", help="Write how it is now to a file, by which one can go back.")
@click.option("--no-wait", is_flag=True, help="Only begin; `ottla reassign watch` waits.")
@interval_option
@keep_throttles_option
@output_option
@cluster_options
def command(
    path: str,
    throttle: int | None,
    rollback: str | None,
    no_wait: bool,
    interval: float,
    keep_throttles: bool,
    output: str | None,
    cluster: Cluster,
) -> None:
    """Move partitions as a FILE says, and show how far it is until it is done; - for standard input.

    The file is that of `ottla reassign plan` or of kafka-reassign-partitions.sh. Throttles are removed at the end.
    After Ctrl-C the cluster goes on moving; `ottla reassign cancel` takes back what is not done.
    """
    from ottla.cli.admin import session
    from ottla.cli.reassign.file import read

    plan = read(path)
    if not plan.replicas and output is None:
        note(f"Nothing to move: {path} has no partitions.")
        return
    begun = session.run(cluster, lambda there: _begin(there, plan, throttle, rollback))
    moved = [place for place, outcome in begun.outcome.items() if outcome is None]
    if not no_wait and moved:
        from ottla.cli.reassign.watching import watch_to_the_end

        watch_to_the_end(cluster, moved, interval, keep_throttles=keep_throttles)
        elsewhere = session.run(
            cluster, lambda there: _elsewhere(there, {place: plan.replicas[place] for place in moved})
        )
        begun = begun._replace(outcome={**begun.outcome, **dict.fromkeys(elsewhere, ELSEWHERE)})
        moved = [place for place in moved if place not in elsewhere]
    rows = _rows(plan.replicas, begun, "begun" if no_wait else "moved")
    refused = len(rows) - len(moved)
    if output is not None or refused:
        print_rows(output, COLUMNS, [row for row in rows if output is not None or not row["done"]])
    note(f"{'Began to move' if no_wait else 'Moved'} {count(len(moved), 'partition')}.")
    if refused:
        note(f"ottla: {count(refused, 'partition')} could not be moved")
        sys.exit(1)


async def _elsewhere(there: Session, target: Mapping[TopicPartition, Sequence[int]]) -> set[TopicPartition]:
    """Those that are not where they should be. A broker may hear a moment later than others that a move is done."""
    from ottla.cli.admin import topics
    from ottla.model.names import TopicPartition

    looks = 0
    while True:
        found = await topics.topics(there)
        now = {TopicPartition(topic.name, part.number): part.replicas for topic in found for part in topic.partitions}
        elsewhere = {place for place, replicas in target.items() if tuple(now.get(place, ())) != tuple(replicas)}
        looks += 1
        if not elsewhere or looks == LOOKS:
            return elsewhere
        await asyncio.sleep(LOOK_EVERY_S)


class _Begun(NamedTuple):
    before: dict[TopicPartition, Sequence[int]]
    outcome: Mapping[TopicPartition, Any]


async def _begin(there: Session, plan: Plan, throttle: int | None, rollback: str | None) -> _Begun:
    from ottla.cli.admin import brokers, reassignments, topics
    from ottla.cli.admin.throttles import set_throttles
    from ottla.cli.reassign.file import write
    from ottla.model.errors import OttlaError
    from ottla.model.names import TopicPartition

    target = plan.replicas
    found = await topics.topics(there, sorted({place.topic for place in target}))
    now = {TopicPartition(topic.name, part.number): part.replicas for topic in found for part in topic.partitions}
    missing = next((place for place in target if place not in now), None)
    if missing is not None:
        raise OttlaError(f"there is no partition {missing}")
    known = {broker.id for broker in (await brokers.brokers(there)).brokers}
    for place, replicas in target.items():
        unknown = next((broker for broker in replicas if broker not in known), None)
        if unknown is not None:
            raise OttlaError(f"{place} shall go to broker {unknown}, which is not there")
    under_way = await reassignments.moves(there, target)
    if under_way:
        raise OttlaError(
            f"{next(iter(under_way))} is being moved already; wait for it (`ottla reassign watch`) or take it back "
            "(`ottla reassign cancel`)"
        )
    before = {place: now[place] for place in target}
    if rollback is not None:  # before anything moves: what cannot be written leaves no way back
        write(rollback, before)
    await reassignments.choose_folders(there, plan.folders)  # before throttles, which would stay if it fails
    if throttle is not None:
        adding = {
            place: [broker for broker in replicas if broker not in before[place]] for place, replicas in target.items()
        }
        sources = {place: before[place] for place, brokers_of in adding.items() if brokers_of}
        await set_throttles(there, throttle, sources, {place: adding[place] for place in sources})
    return _Begun(dict(before), await reassignments.move(there, target))


def _rows(target: Mapping[TopicPartition, Sequence[int]], begun: _Begun, word: str) -> list[dict[str, Any]]:
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "before": list(begun.before[place]),
            "to": list(replicas),
            "done": begun.outcome.get(place) is None,
            "outcome": word if begun.outcome.get(place) is None else str(begun.outcome[place]),
        }
        for place, replicas in sorted(target.items())
    ]
