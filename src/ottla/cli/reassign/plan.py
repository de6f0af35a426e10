"""`ottla reassign plan`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import Column, count, is_terminal, note, output_option, print_rows
from ottla.cli.progress import bytes_text
from ottla.cli.reassign.brokers_option import BrokerList
from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.admin.brokers import Broker, Brokers
    from ottla.cli.admin.session import Session
    from ottla.cli.reassign.planning import Replicas

COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("NOW", "now"),
    Column("PROPOSED", "proposed"),
    Column("COPIES", lambda row: bytes_text(row["bytes"]) if row["adding"] else "none"),
)


@click.command("plan")
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=topic_names)
@click.option("--brokers", type=BrokerList(), help="Use these brokers; otherwise all that are up.")
@click.option("--remove-broker", "removed", type=int, multiple=True, help="Leave this broker empty; repeatable.")
@click.option("-f", "--file", "path", help="Write the plan to a file, for `ottla reassign run`; - for standard output.")
@output_option
@cluster_options
def command(
    names: tuple[str, ...],
    brokers: tuple[int, ...] | None,
    removed: tuple[int, ...],
    path: str | None,
    output: str | None,
    cluster: Cluster,
) -> None:
    """Propose where partitions should be: on all brokers alike, in different racks and on different machines, with
    the fewest moves.

    Of the named topics, or of all. Nothing is changed. The file, which kafka-reassign-partitions.sh reads
    too, holds only the partitions that change.
    """
    from ottla.cli.admin import session

    made = session.run(cluster, lambda there: _plan(there, names, brokers, removed))
    if path is not None:
        from ottla.cli.reassign.file import write

        write(path, made.proposed)
    if path != "-" and (made.rows or output is not None):
        print_rows(output, COLUMNS, made.rows)
    if not made.rows:
        note("Nothing to move: partitions are spread as well as they can be.")
        return
    note(_summary(made))
    if path is None:
        note("Nothing was changed. --file FILE keeps it for `ottla reassign run FILE`.")
    elif path != "-":
        note(f"Nothing was changed. `ottla reassign run {path}` does it.")


class _Made(NamedTuple):
    proposed: dict[TopicPartition, Replicas]
    rows: list[dict[str, Any]]
    before: Counter[int]
    after: Counter[int]


async def _plan(
    there: Session, names: tuple[str, ...], wanted: tuple[int, ...] | None, removed: Sequence[int]
) -> _Made:  # fmt: skip
    from ottla.cli.admin import brokers, replica_logs, topics
    from ottla.cli.reassign.planning import plan

    found = await topics.topics(there)
    missing = [name for name in names if name not in {topic.name for topic in found}]
    if missing:
        await topics.topics(there, missing[:1])  # complains, with a hint
    all_brokers = await brokers.brokers(there)
    chosen = _chosen(all_brokers, wanted, removed)
    placed = {
        TopicPartition(topic.name, part.number): part.replicas for topic in found for part in topic.partitions
    }  # fmt: skip
    _check_known(removed, {*(broker.id for broker in all_brokers.brokers), *chain.from_iterable(placed.values())})
    now = {place: replicas for place, replicas in placed.items() if not names or place.topic in names}
    staying = {place: replicas for place, replicas in placed.items() if place not in now}
    leaders = {TopicPartition(topic.name, part.number): part.leader for topic in found for part in topic.partitions}
    asked = [replica_logs.Replica(place, leaders[place]) for place in now if leaders[place] >= 0]
    sizes = {replica.partition: size for replica, size in (await replica_logs.sizes(there, asked)).items()}
    racks = {broker.id: broker.rack for broker in chosen}
    hosts = {broker.id: broker.address.host for broker in chosen}
    proposed = plan(now, racks, hosts=hosts, staying=staying, sizes=sizes)
    rows = []
    for place, replicas in sorted(proposed.items()):
        adding = [broker for broker in replicas if broker not in now[place]]
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "now": list(now[place]),
                "proposed": list(replicas),
                "adding": adding,
                "bytes": sizes.get(place, 0) * len(adding),
            }
        )
    return _Made(proposed, rows, _held(placed), _held(placed | proposed))


def _held(placed: Mapping[TopicPartition, Sequence[int]]) -> Counter[int]:
    return Counter(broker for replicas in placed.values() for broker in replicas)


def _chosen(found: Brokers, wanted: tuple[int, ...] | None, removed: Sequence[int]) -> list[Broker]:
    from ottla.model.errors import OttlaError

    up = found.up
    for broker in wanted or ():
        if broker not in up:
            raise OttlaError(f"broker {broker} is not up; up are {', '.join(map(str, sorted(up)))}")
    chosen = [up[broker] for broker in wanted or up if broker not in removed]
    if not chosen:
        raise OttlaError("no broker is left to move to")
    return chosen


def _check_known(removed: Sequence[int], known: Set[int]) -> None:
    """One that was forgotten may still be named by partitions."""
    from ottla.model.errors import OttlaError

    for broker in removed:
        if broker not in known:
            raise OttlaError(
                f"there is no broker {broker} to leave empty; there are {', '.join(map(str, sorted(known)))}"
            )


def _summary(made: _Made) -> str:
    copies = sum(len(row["adding"]) for row in made.rows)
    size = sum(row["bytes"] for row in made.rows)
    before, after = made.before, made.after
    nodes = sorted({*before, *after})
    shares = ", ".join(f"{node}: {before[node]} to {after[node]}" for node in nodes if before[node] != after[node])
    order = sum(not row["adding"] for row in made.rows)
    told = [f"{count(copies, 'replica')} to copy ({bytes_text(size)})"]
    if order:
        told.append(f"{count(order, 'partition')} with another order only")
    if shares and (is_terminal() or len(nodes) <= 20):
        told.append(f"replicas by broker {shares}")
    return f"{count(len(made.rows), 'partition')} would change: {'; '.join(told)}."
