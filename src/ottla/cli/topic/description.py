"""What is known of topics: from the metadata, the configs, the offsets, and each replica's own broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ottla.cli.topic.min_isr import NAME as MIN_ISR
from ottla.cli.topic.partition_state import State, states
from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.admin.configs import ConfigEntry
    from ottla.cli.admin.reassignments import Move
    from ottla.cli.admin.replica_logs import Replica
    from ottla.cli.admin.session import Session
    from ottla.cli.admin.topics import PartitionInfo, TopicInfo


async def described(
    there: Session, names: Sequence[str] | None, wanted: Set[State] = frozenset()
) -> list[dict[str, Any]]:
    """The named topics, or all; with `wanted`, those partitions that are in one of the states, and their topics."""
    from ottla.cli.admin import compaction, configs, offsets, replica_logs, topics
    from ottla.cli.admin.moving import Moving
    from ottla.cli.admin.session import NotAnswered

    found = await topics.with_eligible(there, await topics.topics(there, names))
    settings = await configs.configs(there, [configs.of_topic(topic.name) for topic in found])
    entries = {topic.name: settings[configs.of_topic(topic.name)] for topic in found}
    if wanted:
        found = await _selected(there, found, {name: _min_isr(own) for name, own in entries.items()}, wanted)
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic in found:
        for part in topic.partitions:
            led[part.leader].append(TopicPartition(topic.name, part.number))
    begins: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for leader, places in led.items():
        with suppress(Moving, NotAnswered):  # it is dead, and nobody else was elected: the others can tell
            if leader >= 0:
                begins |= await offsets.offsets_of(there, found, places, offsets.EARLIEST)
                ends |= await offsets.offsets_of(there, found, places, offsets.LATEST)
    replicated = [replica for replica in replica_logs.replicas_of(found, at_least=2) if replica.partition in ends]
    replica_ends = await replica_logs.ends(there, replicated)
    compacted = [topic for topic in found if _is_compacted(entries[topic.name])]
    cleanness = await compaction.states(there, compacted)
    return [
        {
            "topic": topic.name,
            "id": _id_text(topic),
            "internal": topic.internal,
            "replicas": topic.replication_factor,
            "min_in_sync": _min_isr(entries[topic.name]),
            "configs": {
                entry.name: entry.value for entry in entries[topic.name] if entry.source == configs.DYNAMIC_TOPIC_CONFIG
            },
            "partitions": [
                _partition(TopicPartition(topic.name, part.number), part, begins, ends, replica_ends, cleanness)
                for part in topic.partitions
            ],
        }
        for topic in found
    ]


def _is_compacted(entries: Sequence[ConfigEntry]) -> bool:
    return any(entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in entries)


async def _selected(
    there: Session, found: Sequence[TopicInfo], min_isr: Mapping[str, int], wanted: Set[State]
) -> list[TopicInfo]:
    moves = await _moves(there)
    selected = []
    for topic in found:
        parts = []
        for part in topic.partitions:
            move = moves.get(TopicPartition(topic.name, part.number))
            adding = 0 if move is None else len(move.adding)
            if wanted & states(part, min_isr[topic.name], adding):
                parts.append(part)
        if parts:
            selected.append(topic._replace(partitions=tuple(parts)))
    return selected


async def _moves(there: Session) -> dict[TopicPartition, Move]:
    from ottla.cli.admin import reassignments
    from ottla.cli.admin.session import NotAnswered
    from ottla.cli.output import note

    try:
        return await reassignments.moves(there)
    except NotAnswered:
        note("No controller says which partitions are being moved: replicas that are still copied count as missing.")
        return {}


def _partition(
    place: TopicPartition,
    part: PartitionInfo,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    replica_ends: Mapping[Replica, int],
    cleanness: Mapping[TopicPartition, Mapping[str, Any]],
) -> dict[str, Any]:
    return {
        "partition": part.number,
        "leader": part.leader if part.leader >= 0 else None,
        "leader_epoch": part.leader_epoch,
        "replicas": list(part.replicas),
        "in_sync": list(part.isr),
        "offline": list(part.offline),
        "eligible": None if part.eligible is None else list(part.eligible),
        "last_known_eligible": None if part.last_known_eligible is None else list(part.last_known_eligible),
        "begins": begins.get(place),
        "ends": ends.get(place),
        "lag": _lag(place, part, replica_ends),
        "compaction": cleanness.get(place),
    }


def _lag(
    place: TopicPartition, part: PartitionInfo, replica_ends: Mapping[Replica, int]
) -> dict[str, int | None] | None:  # fmt: skip
    """By follower; None where there is none, or no leader to compare with."""
    from ottla.cli.admin.replica_logs import Replica

    end = replica_ends.get(Replica(place, part.leader))
    if end is None or len(part.replicas) < 2:
        return None
    found: dict[str, int | None] = {}
    for broker in part.replicas:
        if broker != part.leader:
            own = replica_ends.get(Replica(place, broker))
            found[str(broker)] = None if own is None else max(0, end - own)
    return found


def _min_isr(entries: Sequence[ConfigEntry]) -> int:
    return next((int(entry.value or 1) for entry in entries if entry.name == MIN_ISR), 1)


def _id_text(topic: TopicInfo) -> str | None:
    from ottla.model.ids import uuid_text

    return None if topic.id is None else uuid_text(topic.id)
