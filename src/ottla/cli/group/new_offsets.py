"""Which offsets a group shall have: from a beginning, an end, a time, a number, a shift or a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.cli.admin.group_lag import led_partitions
from ottla.cli.admin.group_offsets import commit, committed
from ottla.cli.admin.groups import Group
from ottla.cli.admin.offsets import EARLIEST, LATEST, offsets_of
from ottla.cli.admin.topics import TopicInfo, topics
from ottla.cli.output import Column, count, note
from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session

Offsets = Mapping[TopicPartition, int]

COLUMNS: Final = (
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("OLD-OFFSET", "old_offset"),
    Column("NEW-OFFSET", "new_offset"),
    Column("CHANGE", lambda row: _change(row["old_offset"], row["new_offset"])),
)


class Surroundings(NamedTuple):
    """What new offsets are found from."""

    there: Session
    group: Group
    topics: Sequence[TopicInfo]
    partitions: Sequence[TopicPartition]
    old: Offsets

    async def ends(self, timestamp: int, only: Sequence[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        wanted = self.partitions if only is None else only
        return await offsets_of(self.there, self.topics, wanted, timestamp) if wanted else {}


Scenario = Callable[[Surroundings], Awaitable[Offsets]]


async def look(
    there: Session, group: Group, choose: Callable[[Offsets], Awaitable[Sequence[TopicPartition]]]
) -> Surroundings:
    """`choose` says which partitions are meant; those that are not there any more are left out, with a word."""
    old = {place: known.offset for place, known in (await committed(there, group.id)).items()}
    wanted = await choose(old)
    found = await topics(there, list(dict.fromkeys(place.topic for place in wanted)), leave_out_missing=True)
    numbers = {TopicPartition(topic.name, part.number) for topic in found for part in topic.partitions}
    for place in wanted:
        if place not in numbers:
            note(f"Warning: {place} is not there any more and is left out.")
        elif place not in led_partitions(found):
            raise OttlaError(f"{place} has no leader now, so its offsets are not known; is a broker down?")
    return Surroundings(there, group, found, [place for place in wanted if place in numbers], old)


# -- scenarios


async def to_earliest(around: Surroundings) -> Offsets:
    return await around.ends(EARLIEST)


async def to_latest(around: Surroundings) -> Offsets:
    return await around.ends(LATEST)


def to_offset(offset: int) -> Scenario:
    async def find(around: Surroundings) -> Offsets:
        return await _within(around, dict.fromkeys(around.partitions, offset))

    return find


def before_end(records: int) -> Scenario:
    async def find(around: Surroundings) -> Offsets:
        begins, ends = await around.ends(EARLIEST), await around.ends(LATEST)
        return {place: max(begins[place], end - records) for place, end in ends.items()}

    return find


def shifted(by: int) -> Scenario:
    async def find(around: Surroundings) -> Offsets:
        for place in around.partitions:
            if place not in around.old:
                raise OttlaError(
                    f"the offset of group {around.group.id} in {place} cannot be shifted: it has committed none there. "
                    "Leave the partition out, or set it by --to-offset."
                )
        return await _within(around, {place: around.old[place] + by for place in around.partitions})

    return find


def at_time(timestamp_ms: int) -> Scenario:
    async def find(around: Surroundings) -> Offsets:
        found = await around.ends(timestamp_ms)
        too_old = [place for place, offset in found.items() if offset < 0]
        for place in too_old:
            note(f"Warning: {place} has no record of that time or later: its end is taken.")
        return found | await around.ends(LATEST, too_old)

    return find


async def to_current(around: Surroundings) -> Offsets:
    """Where nothing is committed, the end."""
    without = [place for place in around.partitions if place not in around.old]
    kept = {place: around.old[place] for place in around.partitions if place in around.old}
    return kept | await around.ends(LATEST, without)


def as_written(offsets: Offsets) -> Scenario:
    async def find(around: Surroundings) -> Offsets:
        return await _within(around, {place: offsets[place] for place in around.partitions})

    return find


async def _within(around: Surroundings, wanted: Offsets) -> Offsets:
    """What lies outside of a partition is moved to its nearest end, as Kafka's tool does."""
    begins, ends = await around.ends(EARLIEST), await around.ends(LATEST)
    found = {}
    for place, offset in wanted.items():
        found[place] = max(begins[place], min(offset, ends[place]))
        if found[place] != offset:
            side = "after its end" if offset > ends[place] else "before its beginning"
            note(f"Warning: offset {offset} of {place} lies {side}: {found[place]} is taken.")
    return found


# -- doing it


def check_inactive(group: Group) -> None:
    if group.is_active:
        raise OttlaError(
            f"offsets of group {group.id} can be changed only while it has no members, and it is {group.state} with "
            f"{count(len(group.members), 'member')}. Stop its consumers first; `ottla group members {group.id}` shows "
            "who they are."
        )


async def apply(around: Surroundings, scenario: Scenario, *, execute: bool) -> list[dict[str, Any]]:
    """The old and new offsets as rows, committed if they shall be."""
    new = await scenario(around)
    if execute and new:
        await commit(around.there, around.group.id, new)
    return [
        {
            "group": around.group.id,
            "topic": place.topic,
            "partition": place.partition,
            "old_offset": around.old.get(place),
            "new_offset": new[place],
        }
        for place in around.partitions
    ]


def _change(old: int | None, new: int) -> str:
    return "-" if old is None else f"{new - old:+d}" if new != old else "0"
