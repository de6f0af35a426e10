"""How far groups are behind: what they have committed beside where the partitions end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ottla.cli.admin.group_offsets import Committed, committed
from ottla.cli.admin.groups import Group, Member, described
from ottla.cli.admin.moving import asked_again
from ottla.cli.admin.offsets import LATEST, offsets_of
from ottla.cli.admin.session import Session
from ottla.cli.admin.topics import TopicInfo, topics
from ottla.model.names import TopicPartition

_AT_ONCE: Final = 100  # groups whose offsets are asked for, before the first of them has answered


class Position(NamedTuple):
    """One group in one partition. None is what is not known: no commit yet, or no leader that could tell."""

    topic: str
    partition: int
    current: int | None
    leader_epoch: int | None
    end: int | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        return None if self.current is None or self.end is None else self.end - self.current


class Progress(NamedTuple):
    group: Group
    positions: tuple[Position, ...]
    """Of all partitions that are assigned or have a commit, by topic and number."""

    @property
    def lag(self) -> int | None:
        return total_lag(self.positions)


def total_lag(positions: Iterable[Position]) -> int | None:
    """None if no partition's is known."""
    known = [lag for position in positions if (lag := position.lag) is not None]
    return sum(known) if known else None


@asked_again
async def progress(session: Session, group_ids: Sequence[str], *, leave_out_missing: bool = False) -> list[Progress]:
    """In the order of the ids; OttlaError if a group is not there."""
    groups = await described(session, group_ids, leave_out_missing=leave_out_missing)
    group_ids = list(groups)
    commits: dict[str, dict[TopicPartition, Committed]] = {}
    for at in range(0, len(group_ids), _AT_ONCE):
        part = group_ids[at : at + _AT_ONCE]
        commits |= zip(part, await asyncio.gather(*(committed(session, each) for each in part)), strict=True)
    owners = {
        group_id: {place: member for member in group.members for place in member.assigned or ()}
        for group_id, group in groups.items()
    }
    places = {place for group_id in group_ids for place in (*commits[group_id], *owners[group_id])}
    ends = await end_offsets(session, places)

    def position(place: TopicPartition, group_id: str) -> Position:
        known = commits[group_id].get(place)
        current, epoch = (None, None) if known is None else (known.offset, known.leader_epoch)
        return Position(*place, current, epoch, ends.get(place), owners[group_id].get(place))

    return [
        Progress(
            groups[group_id],
            tuple(position(place, group_id) for place in sorted({*commits[group_id], *owners[group_id]})),
        )
        for group_id in group_ids
    ]


@asked_again
async def end_offsets(session: Session, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The high watermarks of those that are there and have a leader."""
    wanted = sorted(places)
    if not wanted:
        return {}
    there = await topics(session, list(dict.fromkeys(place.topic for place in wanted)), leave_out_missing=True)
    led = led_partitions(there)
    return await offsets_of(session, there, [place for place in wanted if place in led], LATEST)


def led_partitions(there: Iterable[TopicInfo]) -> set[TopicPartition]:
    return {TopicPartition(topic.name, part.number) for topic in there for part in topic.partitions if part.leader >= 0}
