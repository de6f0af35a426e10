"""Apache Kafka's own assignors are asked the same, and give the same where the order of a hash map does not decide."""

from __future__ import annotations

from pathlib import Path
from random import Random
from uuid import UUID

import pytest
from tests.coordinator.group.assignors.given import size, topic
from tests.coordinator.group.assignors.test_properties import moved

from ottla.coordinator.group.assignors.catalogue import assign
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec, have_same_topics
from ottla.testing.apache_kafka import available, tool

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not available(), reason="no Java, or Apache Kafka's jars are not there"),
]

PROGRAM = Path(__file__).parent / "Assign.java"
GROUPS = 400


def any_group(random: Random) -> GroupSpec:
    names = "ABCDEF"[: random.randint(1, 6)]
    counts = {topic(name): random.choice([0, 1, 2, 3, 8, 8, 20]) for name in names}
    shared = frozenset(random.sample(sorted(counts), random.randint(1, len(counts))))
    mixed = random.random() < 0.6
    free = [(topic_id, number) for topic_id, count in counts.items() for number in range(count)]
    random.shuffle(free)
    members = {}
    for number in sorted(random.sample(range(40), random.randint(1, 9))):
        topics = frozenset(t for t in counts if random.random() < 0.6) if mixed else shared
        had: dict[UUID, set[int]] = {}
        for _ in range(min(len(free), random.choice([0, 0, 1, 5, 12]))):
            topic_id, partition = free.pop()
            had.setdefault(topic_id, set()).add(partition)
        instance_id = f"i{40 - number}" if random.random() < 0.4 else None
        target = {topic_id: frozenset(numbers) for topic_id, numbers in had.items()}
        members[f"m{number:02}"] = MemberSpec(topics, target, instance_id)
    return GroupSpec(members, counts)


def asked(name: str, spec: GroupSpec) -> str:
    topics = " ".join(f"{t.int}:{count}" for t, count in spec.partitions.items())
    members = [
        f"{member_id} / {member.instance_id or '-'} / {' '.join(str(t.int) for t in sorted(member.topics))} / "
        + " ".join(f"{t.int}:{number}" for t, numbers in member.target.items() for number in sorted(numbers))
        for member_id, member in spec.members.items()
    ]
    return " | ".join([name, topics, *members])


def answered(line: str, spec: GroupSpec) -> dict[str, Assignment]:
    assigned: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in spec.members}
    for entry in filter(None, line.split(" | ")):
        member_id, _, places = entry.partition(" =")
        for place in places.split():
            number, _, partition = place.partition(":")
            assigned[member_id].setdefault(UUID(int=int(number)), set()).add(int(partition))
    return {key: {t: frozenset(numbers) for t, numbers in has.items()} for key, has in assigned.items()}


def test_they_give_the_same() -> None:
    random = Random(848)
    questions = [(name, any_group(random)) for _ in range(GROUPS) for name in ("range", "uniform")]

    done = tool(str(PROGRAM), stdin="".join(asked(*question) + "\n" for question in questions))

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(questions)
    equal = 0
    for (name, spec), line in zip(questions, lines, strict=True):
        theirs, ours = answered(line, spec), assign(name, spec)
        used = {t for member in spec.members.values() for t in (*member.topics, *member.target)}
        if name == "uniform" and have_same_topics(spec) and len(used) > 1:
            # several topics come in the order of a hash map
            assert {key: size(has) for key, has in ours.items()} == {key: size(has) for key, has in theirs.items()}
            assert moved(spec, ours) == moved(spec, theirs)
        else:
            assert ours == theirs, asked(name, spec)
            equal += 1
    assert equal > GROUPS
