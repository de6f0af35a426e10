"""`ottla txn abort`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import is_terminal, may_go_on, outcome_option, print_outcome
from ottla.cli.scope import Scope, ScopeType

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session


@click.command("abort")
@click.argument("name", metavar="[ID]", required=False)
@click.option("--topic", "scope", type=ScopeType(), help="A partition on which a transaction hangs: TOPIC:PARTITION.")
@click.option("--producer", type=int, help="The producer of the one that hangs, as `find-hanging` shows it.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask on a terminal.")
@outcome_option
@cluster_options
def command(
    name: str | None, scope: Scope | None, producer: int | None, yes: bool, output: str | None, cluster: Cluster
) -> None:
    """Abort the open transaction of a transactional id; its producer is fenced, as if another had taken its place.

    With --topic and --producer instead: end a transaction that hangs, which no coordinator knows of, by writing the
    marker for it. Never do this to one that is known: part of it would be aborted and part committed.
    """
    from ottla.cli.admin import session

    if (name is None) == (scope is None) or (scope is None) != (producer is None):
        raise click.UsageError("give a transactional id, or --topic TOPIC:PARTITION and --producer")
    if scope is not None and len(scope.only) != 1:
        raise click.UsageError("--topic must name one partition: TOPIC:PARTITION")
    if sys.stdin.isatty() and is_terminal():
        may_go_on(f"Abort the transaction of {name or f'producer {producer}'}?", yes)

    async def ask(there: Session) -> tuple[dict[str, Any], str]:
        if name is not None:
            return await _by_id(there, name)
        assert scope is not None and producer is not None
        return await _hanging(there, scope, producer)

    done, sentence = session.run(cluster, ask)
    print_outcome(output, done, sentence)


async def _by_id(there: Session, name: str) -> tuple[dict[str, Any], str]:
    from ottla.cli.admin.transactions import end_by_force

    before = await end_by_force(there, name)
    done = {"transactional_id": name, "producer_id": before.producer_id, "aborted": before.state == "Ongoing"}
    if before.state == "Ongoing":
        return done, f"The transaction of {name} is aborted, and its producer fenced."
    return done, f"{name} had no transaction open ({before.state}); its producer is fenced."


async def _hanging(there: Session, scope: Scope, producer: int) -> tuple[dict[str, Any], str]:
    from ottla.cli.admin.topics import topics
    from ottla.cli.admin.transactions import open_producers, owners, write_abort
    from ottla.model.errors import OttlaError

    (number,) = scope.only
    found = await open_producers(there, await topics(there, [scope.topic]), number)
    mine = [each for each in found if each.producer_id == producer]
    if not mine:
        raise OttlaError(f"producer {producer} has no transaction open in {scope.topic}-{number}")
    owner = (await owners(there, mine)).get(producer)
    if owner is not None and owner.is_open and mine[0].partition in owner.partitions:
        raise OttlaError(
            f"this transaction does not hang: it is that of {owner.id}, which is {owner.state}. "
            f"To end it as a whole: ottla txn abort {owner.id}"
        )
    await write_abort(there, mine[0])
    done = {"topic": scope.topic, "partition": number, "producer_id": producer, "aborted": True}
    return done, f"The transaction of producer {producer} in {scope.topic}-{number} is aborted."
