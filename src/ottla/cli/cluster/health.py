"""What a cluster's state is, and what is wrong with it, from what it tells itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.output import count
from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.admin.brokers import Brokers
    from ottla.cli.admin.quorum import Member, Quorum
    from ottla.cli.admin.reassignments import Move
    from ottla.cli.admin.session import Session
    from ottla.cli.admin.topics import TopicInfo

MOMENT_MS: Final = 2000


async def look(there: Session, wanted: int | None) -> dict[str, Any]:
    from ottla.cli.admin import brokers, quorum, reassignments, topics
    from ottla.cli.admin.session import NotAnswered
    from ottla.cli.topic.min_isr import min_isr_of

    found = await topics.topics(there)
    nodes = await brokers.brokers(there)
    min_isr = await min_isr_of(there, [topic.name for topic in found])
    try:
        members, moves = await quorum.quorum(there), await reassignments.moves(there)
    except NotAnswered:  # brokers wait for a controller, while there may be none for long
        members, moves = quorum.Quorum(None, -1, -1, ()), {}
    return judged(nodes, members, found, min_isr, moves, wanted)


def judged(
    nodes: Brokers,
    members: Quorum,
    topics: Iterable[TopicInfo],
    min_isr: Mapping[str, int],
    moves: Mapping[TopicPartition, Move],
    wanted: int | None = None,
) -> dict[str, Any]:
    from ottla.cli.topic.partition_state import State, states

    level = [voter.id for voter in members.voters if _is_level(members, voter)]
    rows = []
    for topic in topics:
        for part in topic.partitions:
            move = moves.get(TopicPartition(topic.name, part.number))
            adding = 0 if move is None else len(move.adding)
            rows.append((topic, part, states(part, min_isr[topic.name], adding)))
    told: dict[str, Any] = {
        "cluster_id": nodes.cluster_id,
        "controller": members.leader,
        "controller_epoch": members.epoch,
        "voters": {"all": [voter.id for voter in members.voters], "level": level},
        "brokers": {"registered": [broker.id for broker in nodes.brokers], "up": sorted(nodes.up)},
        "topics": len({topic.name for topic, _, _ in rows}),
        "partitions": len(rows),
        "without_leader": sum(State.UNAVAILABLE in found for _, _, found in rows),
        "under_min_isr": sum(State.UNDER_MIN_ISR in found and State.UNAVAILABLE not in found for _, _, found in rows),
        "under_replicated": sum(State.UNDER_REPLICATED in found for _, _, found in rows),
        "not_preferred": sum(part.leader >= 0 and part.leader != part.replicas[0] for _, part, _ in rows),
        "being_moved": len(moves),
    }
    told["problems"] = list(_problems(told, wanted))
    told["well"] = not told["problems"]
    return told


def _is_level(members: Quorum, voter: Member) -> bool:
    """It has all that is committed, or had a moment ago: something is written all the time."""
    if voter.end is None or voter.end >= members.high_watermark:
        return voter.end is not None
    now = next((each.level_ms for each in members.voters if each.id == members.leader), None)
    return now is not None and voter.level_ms is not None and now - voter.level_ms < MOMENT_MS


def _problems(told: Mapping[str, Any], wanted: int | None) -> Iterable[str]:
    voters, brokers = told["voters"], told["brokers"]
    if told["controller"] is None:
        yield "nobody leads the metadata quorum: topics and leaders cannot change; most voters must be up"
    behind = sorted(set(voters["all"]) - set(voters["level"]))
    if behind and told["controller"] is not None:
        yield f"{_these('voter', behind)} down or behind in the quorum: `ottla cluster quorum` shows how far"
    down = sorted(set(brokers["registered"]) - set(brokers["up"]))
    if down:
        yield f"{_these('broker', down)} fenced: down, or without a way to the controller"
    if wanted is not None and len(brokers["up"]) < wanted:
        yield f"{count(len(brokers['up']), 'broker')} up, {wanted} wanted"
    for key, text, option in (
        ("without_leader", "no leader and can be neither read nor written", "--unavailable"),
        ("under_min_isr", "fewer replicas in sync than acks=all needs", "--under-min-isr"),
        ("under_replicated", "replicas that are not in sync", "--under-replicated"),
    ):
        if number := told[key]:
            has = "has" if number == 1 else "have"
            yield f"{count(number, 'partition')} {has} {text}: `ottla topic describe {option}`"


def _these(what: str, numbers: Sequence[int]) -> str:
    listed = ", ".join(map(str, numbers))
    return f"{what} {listed} is" if len(numbers) == 1 else f"{what}s {listed} are"
