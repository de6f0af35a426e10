"""What holds for any group, and when it changes."""

from __future__ import annotations

import pickle
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.coordinator.group.assignors.given import size, topic

from ottla.coordinator.group.assignors.catalogue import ASSIGNORS, assign, is_large
from ottla.coordinator.group.assignors.spec import Assignment, GroupSpec, MemberSpec

LETTERS = "ABCDE"
_counts = st.dictionaries(st.sampled_from(LETTERS), st.integers(0, 12), min_size=1)
_ids = st.integers(0, 30).map("m{:02}".format)


@st.composite
def groups(draw: st.DrawFn, *, same_topics: bool = False) -> GroupSpec:
    """New groups, and old ones in which anything may have happened since."""
    counts = draw(_counts)
    choices = st.frozensets(st.sampled_from(sorted(counts)))
    shared = draw(choices)
    members: dict[str, MemberSpec] = {}
    free = {(topic(name), number) for name, count in counts.items() for number in range(count)}
    for member_id in draw(st.lists(_ids, unique=True, min_size=1, max_size=10)):
        topics = frozenset(map(topic, shared if same_topics else draw(choices)))
        had = draw(st.frozensets(st.sampled_from(sorted(free)), max_size=8)) if free else frozenset()
        free -= had
        instance_id = member_id[::-1] if draw(st.booleans()) else None
        members[member_id] = MemberSpec(topics, _gathered(had), instance_id)
    return GroupSpec(members, {topic(name): count for name, count in counts.items()})


def _gathered(places: frozenset[tuple[UUID, int]]) -> Assignment:
    found: dict[UUID, set[int]] = {}
    for topic_id, number in places:
        found.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in found.items()}


def after(spec: GroupSpec, assigned: dict[str, Assignment], *without: str) -> GroupSpec:
    members = {
        member_id: member._replace(target=assigned[member_id])
        for member_id, member in spec.members.items()
        if member_id not in without
    }
    return spec._replace(members=members)


def moved(spec: GroupSpec, assigned: dict[str, Assignment]) -> int:
    """Partitions that a member had, may keep, and does not."""
    return sum(
        len(numbers - assigned[member_id].get(topic_id, frozenset()))
        for member_id, member in spec.members.items()
        for topic_id, numbers in member.target.items()
        if topic_id in member.topics
    )


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=groups())
@settings(max_examples=100)
def test_every_partition_has_one_owner_who_subscribes_to_it(name: str, spec: GroupSpec) -> None:
    assigned = assign(name, spec)

    assert assigned.keys() == spec.members.keys()
    places = [(t, n) for assignment in assigned.values() for t, numbers in assignment.items() for n in numbers]
    subscribed = {t for member in spec.members.values() for t in member.topics}
    assert sorted(places) == sorted((t, n) for t in subscribed for n in range(spec.partitions[t]))
    for member_id, assignment in assigned.items():
        assert assignment.keys() <= spec.members[member_id].topics
        assert all(assignment.values())


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=groups())
@settings(max_examples=100)
def test_the_same_group_is_told_the_same_in_any_order_and_any_process(name: str, spec: GroupSpec) -> None:
    turned = spec._replace(members=dict(reversed(list(spec.members.items()))))

    assert assign(name, spec) == assign(name, turned) == assign(name, pickle.loads(pickle.dumps(spec)))  # noqa: S301


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=groups())
@settings(max_examples=100)
def test_a_group_in_which_nothing_changed_keeps_its_assignment(name: str, spec: GroupSpec) -> None:
    settled = after(spec, assign(name, spec))

    again = assign(name, settled)

    for member_id, member in settled.members.items():
        assert again[member_id] is member.target


@given(spec=groups(same_topics=True))
@settings(max_examples=100)
def test_uniform_is_even_and_moves_no_more_than_it_must(spec: GroupSpec) -> None:
    assigned = assign("uniform", spec)

    sizes = [size(assignment) for assignment in assigned.values()]
    assert max(sizes) - min(sizes) <= 1
    quota, extras = divmod(sum(sizes), len(sizes))
    had = sorted(
        (sum(len(n) for t, n in member.target.items() if t in member.topics) for member in spec.members.values()),
        reverse=True,
    )
    must = sum(max(0, count - quota - (number < extras)) for number, count in enumerate(had))
    assert moved(spec, assigned) == must


@given(spec=groups(same_topics=True), data=st.data())
@settings(max_examples=100)
def test_uniform_gives_only_to_others_what_one_leaves_behind(spec: GroupSpec, data: st.DataObject) -> None:
    assigned = assign("uniform", spec)
    leaving = data.draw(st.sampled_from(sorted(assigned)))
    rest = after(spec, assigned, leaving)

    assert not rest.members or moved(rest, assign("uniform", rest)) == 0


@given(spec=groups())
@settings(max_examples=100)
def test_uniform_leaves_no_topic_uneven_among_those_who_could_take_more_of_it(spec: GroupSpec) -> None:
    """An owner of a partition has at most one more than any other subscriber of its topic."""
    assigned = assign("uniform", spec)

    sizes = {member_id: size(assignment) for member_id, assignment in assigned.items()}
    for topic_id in spec.partitions:
        subscribers = [member_id for member_id, member in spec.members.items() if topic_id in member.topics]
        owners = [member_id for member_id, assignment in assigned.items() if topic_id in assignment]
        if owners:
            assert max(sizes[owner] for owner in owners) - min(sizes[one] for one in subscribers) <= 1


@given(spec=groups())
@settings(max_examples=100)
def test_range_gives_neighbours_and_the_same_of_like_topics(spec: GroupSpec) -> None:
    assigned = assign("range", spec)

    for assignment in assigned.values():
        for numbers in assignment.values():
            assert len(numbers) == max(numbers) - min(numbers) + 1
    subscribers = {t: frozenset(m for m in assigned if t in spec.members[m].topics) for t in spec.partitions}
    for one in spec.partitions:
        for other in spec.partitions:
            if subscribers[one] == subscribers[other] and spec.partitions[one] == spec.partitions[other]:
                assert all(found.get(one) == found.get(other) for found in assigned.values())


@pytest.mark.parametrize(
    ("members", "partitions", "expected"), [(1_000, 10_000, False), (10, 29_990, False), (10, 30_000, True)]
)
def test_what_takes_long_is_known_before(members: int, partitions: int, expected: bool) -> None:
    one = MemberSpec(frozenset([topic("A")]))
    spec = GroupSpec({f"m{number}": one for number in range(members)}, {topic("A"): partitions, topic("B"): 50_000})

    assert is_large(spec) is expected


def test_mixed_groups_take_longer() -> None:
    members = {f"m{number}": MemberSpec(frozenset(map(topic, "AB"))) for number in range(1_000)}
    members["other"] = MemberSpec(frozenset([topic("A")]))

    assert not is_large(GroupSpec(members, {topic("A"): 4_000, topic("B"): 1_000}))
    assert is_large(GroupSpec(members, {topic("A"): 4_000, topic("B"): 4_000}))
