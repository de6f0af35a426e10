"""`ottla txn why`: what a read_committed consumer waits for."""

from __future__ import annotations

import shlex
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import topic_names
from ottla.cli.output import output_option, print_value, shown
from ottla.cli.scope import Scope, ScopeType
from ottla.cli.txn.spans import moment, span

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.cli.admin.transactions import OpenProducer, TransactionInfo


@click.command("why")
@click.argument("scope", metavar="TOPIC[-PARTITION]", type=ScopeType(), shell_complete=topic_names)
@output_option
@cluster_options
def command(scope: Scope, output: str | None, cluster: Cluster) -> None:
    """Say which open transactions keep consumers with isolation.level=read_committed from reading on.

    Such a consumer stops at the first record of the oldest open transaction of a partition. Ends with 1 if there is
    one.
    """
    from ottla.cli.admin import session

    stops = session.run(cluster, lambda there: _stops(there, scope))
    if output in ("json", "yaml"):
        print_value(output, stops)
    elif not stops:
        click.echo(f"No transaction is open in {scope.topic}: consumers of committed records can read to its end.")
    for stop in stops if output not in ("json", "yaml") else ():
        for line in _sentences(stop):
            click.echo(shown(line))
    if stops:
        sys.exit(1)


async def _stops(there: Session, scope: Scope) -> list[dict[str, Any]]:
    """The oldest open transaction of each partition."""
    from ottla.cli.admin.topics import topics
    from ottla.cli.admin.transactions import open_producers, owners
    from ottla.cli.partitions import chosen

    scope = await _meant(there, scope)
    (topic,) = await topics(there, [scope.topic])
    wanted = chosen(topic.name, [each.number for each in topic.partitions], scope.only)
    producers = [each for each in await open_producers(there, [topic]) if each.partition.partition in wanted]
    known = await owners(there, producers)
    first = {each.partition: each for each in reversed(producers)}
    return [_stop(each, known.get(each.producer_id)) for _, each in sorted(first.items())]


async def _meant(there: Session, scope: Scope) -> Scope:
    """A partition as it is printed everywhere, orders-3, is understood too, unless a topic has that name."""
    from ottla.cli.admin.topics import topics

    name, _, number = scope.topic.rpartition("-")
    if scope.only or not name or not number.isdecimal():
        return scope
    return scope if await topics(there, [scope.topic], leave_out_missing=True) else Scope(name, (int(number),))


def _stop(producer: OpenProducer, owner: TransactionInfo | None) -> dict[str, Any]:
    is_known = owner is not None and owner.is_open and producer.partition in owner.partitions
    ends_ms = None
    if owner is not None and is_known and owner.start_ms is not None and owner.state == "Ongoing":
        ends_ms = owner.start_ms + owner.timeout_ms
    return {
        "topic": producer.partition.topic,
        "partition": producer.partition.partition,
        "stable_offset": producer.start_offset,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "last_written_ms": producer.last_ms,
        "transactional_id": owner.id if owner is not None else None,
        "state": owner.state if owner is not None else None,
        "since_ms": owner.start_ms if owner is not None and is_known else None,
        "times_out_ms": ends_ms,
        "is_hanging": not is_known,
    }


def _sentences(stop: dict[str, Any]) -> list[str]:
    now_ms = round(time.time() * 1000)
    where = f"{stop['topic']}-{stop['partition']}"
    who = f"producer {stop['producer_id']} (epoch {stop['producer_epoch']})"
    lines = [f"{where}: consumers of committed records stop at offset {stop['stable_offset']}."]
    if stop["is_hanging"]:
        lines.append(f"  A transaction of {who} is open there, and no coordinator knows of it: it hangs.")
        place = f"--topic {stop['topic']}:{stop['partition']} --producer {stop['producer_id']}"
        lines.append(f"  To end it: ottla txn abort {place}")
        return lines
    since = ""
    if stop["since_ms"] is not None:
        since = f", since {moment(stop['since_ms'])} ({span(now_ms - stop['since_ms'])})"
    lines.append(f"  {stop['transactional_id']}, {who}, has a transaction open{since}: it is {stop['state']}.")
    if stop["times_out_ms"] is not None:
        left_ms = stop["times_out_ms"] - now_ms
        when = f"in {span(left_ms)}, at {moment(stop['times_out_ms'])}" if left_ms > 0 else "any moment now"
        lines.append(f"  If its producer does not end it, it is aborted {when}.")
        lines.append(f"  To end it now and fence its producer: ottla txn abort {shlex.quote(stop['transactional_id'])}")
    else:
        lines.append("  Its outcome is decided; markers are being written to its partitions.")
    return lines
