"""What both elections share: which partitions are meant, and what became of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from ottla.cli.cluster_options import Cluster
from ottla.cli.output import Column, count, note, print_rows
from ottla.cli.scope import Scope, ScopeType, partitions_in

if TYPE_CHECKING:
    from ottla.cli.admin.elections import Election
    from ottla.cli.admin.session import Session
    from ottla.model.names import TopicPartition

F = TypeVar("F", bound=Callable[..., Any])
COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("LED BY", "was"),
    Column("LEADER", "leader"),
    Column("OUTCOME", lambda row: "elected" if row["elected"] else str(row["reason"])),
)


class Choice(NamedTuple):
    scopes: tuple[Scope, ...]
    everything: bool

    def check(self) -> None:
        if self.everything == bool(self.scopes):
            raise click.UsageError("which partitions? Give either TOPIC[:PARTITION,...] or --all")


def choice_options(function: F) -> F:
    """Gives a command the arguments `scopes` and `everything`."""
    function = click.option("-a", "--all", "everything", is_flag=True, help="All partitions of all topics.")(function)
    return click.argument("scopes", nargs=-1, type=ScopeType(), metavar="TOPIC[:N,...]...")(function)


def elect(cluster: Cluster, output: str | None, election: Election, choice: Choice) -> None:
    from ottla.cli.admin import session

    rows = session.run(cluster, lambda there: _elect(there, election, choice))
    if rows or output is not None:
        print_rows(output, COLUMNS, rows)
    elected = sum(row["elected"] for row in rows)
    refused = [row for row in rows if not row["elected"] and not row["unneeded"]]
    note(f"{count(elected, 'leader')} elected{f', {len(refused)} refused' if refused else ''}.")
    if refused:
        sys.exit(1)


async def _elect(there: Session, election: Election, choice: Choice) -> list[dict[str, Any]]:
    from ottla.cli.admin import elections, topics
    from ottla.model.errors import ErrorCode
    from ottla.model.names import TopicPartition

    names = None if choice.everything else list(dict.fromkeys(scope.topic for scope in choice.scopes))
    found = await topics.topics(there, names)
    wanted = None if choice.everything else partitions_in(choice.scopes, found)
    before = {TopicPartition(topic.name, part.number): part.leader for topic in found for part in topic.partitions}
    outcome = await elections.elect(there, election, wanted)
    after = await _leaders_after(there, {place for place, refused in outcome.items() if refused is None}, before)
    rows = []
    for place, refused in sorted(outcome.items()):
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "was": _led_by(before.get(place)),
                "leader": _led_by(after.get(place, before.get(place))),
                "elected": refused is None,
                "unneeded": refused is not None and refused.code is ErrorCode.election_not_needed,
                "reason": None if refused is None else str(refused),
            }
        )
    return rows


def _led_by(leader: int | None) -> int | None:
    return None if leader is None or leader < 0 else leader


async def _leaders_after(
    there: Session, elected: set[TopicPartition], before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """A broker may take a moment to hear of it from the controller."""
    import asyncio

    from ottla.cli.admin import topics
    from ottla.model.names import TopicPartition

    names = sorted({place.topic for place in elected})
    deadline = asyncio.get_running_loop().time() + 2.0
    while True:
        found = await topics.topics(there, names, leave_out_missing=True)
        now = {TopicPartition(topic.name, part.number): part.leader for topic in found for part in topic.partitions}
        if all(now.get(place) != before.get(place) for place in elected):
            return now
        if asyncio.get_running_loop().time() > deadline:
            return now
        await asyncio.sleep(0.02)
