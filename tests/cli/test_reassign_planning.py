"""Plans of where partitions should be: valid, spread over racks, even, and with few moves."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.reassign.planning import plan
from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]


def topic(name: str, *replicas: tuple[int, ...]) -> Assignment:
    return {TopicPartition(name, number): each for number, each in enumerate(replicas)}


def no_racks(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def moved(now: Assignment, after: Assignment) -> int:
    return sum(len(set(replicas) - set(now[place])) for place, replicas in after.items())


def held(assignment: Assignment) -> Counter[int]:
    return Counter(broker for replicas in assignment.values() for broker in replicas)


def led(assignment: Assignment) -> Counter[int]:
    return Counter(replicas[0] for replicas in assignment.values())


def test_what_is_level_stays_as_it_is() -> None:
    now = topic("t", (1, 2), (2, 3), (3, 1))
    assert plan(now, no_racks(1, 2, 3)) == {}


def test_a_broker_is_emptied_and_nothing_else_moves() -> None:
    now = topic("t", (1, 2), (2, 3), (3, 1), (1, 3))
    after = plan(now, no_racks(1, 2))
    whole = now | after
    assert all(set(replicas) == {1, 2} for replicas in whole.values())
    assert moved(now, after) == 3
    assert led(whole) == {1: 2, 2: 2}


def test_a_new_broker_gets_its_share_and_no_more_is_moved() -> None:
    now = topic("t", *((1, 2), (2, 3), (3, 1)) * 4)
    after = plan(now, no_racks(1, 2, 3, 4))
    assert held(now | after) == dict.fromkeys((1, 2, 3, 4), 6)
    assert moved(now, after) == 6
    assert led(now | after) == dict.fromkeys((1, 2, 3, 4), 3)


def test_many_small_topics_are_spread_together() -> None:
    now: Assignment = {place: (1,) for n in range(8) for place in topic(f"t{n}", (1,))}
    after = plan(now, no_racks(1, 2, 3, 4))
    assert held(now | after) == dict.fromkeys((1, 2, 3, 4), 2)
    assert moved(now, after) == 6


def test_replicas_of_a_partition_go_to_different_racks() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}
    now = topic("t", (1, 2), (3, 4), (2, 1), (4, 3))
    whole = now | plan(now, racks)
    assert all({racks[broker] for broker in replicas} == {"a", "b"} for replicas in whole.values())
    assert held(whole) == dict.fromkeys(racks, 2)


def test_more_replicas_than_racks_are_shared_out_among_them() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "a", 4: "b"}
    (after,) = plan(topic("t", (1, 2, 3)), racks).values()
    assert 4 in after and len(set(after)) == 3


def test_replicas_of_a_partition_go_to_different_machines() -> None:
    hosts = {1: "one", 2: "one", 3: "two", 4: "two"}
    now = topic("t", (1, 2), (3, 4), (2, 1), (4, 3))
    whole = now | plan(now, no_racks(*hosts), hosts=hosts)
    assert all({hosts[broker] for broker in replicas} == {"one", "two"} for replicas in whole.values())
    assert held(whole) == dict.fromkeys(hosts, 2)


def test_they_stay_there_when_a_broker_is_emptied_or_filled() -> None:
    hosts = {1: "one", 2: "one", 3: "two", 4: "two"}
    now = topic("t", (1, 3), (3, 2), (2, 4), (4, 1))
    for brokers in ((1, 2, 3), (1, 3, 4)):
        whole = now | plan(now, no_racks(*brokers), hosts=hosts)
        assert all({hosts[broker] for broker in replicas} == {"one", "two"} for replicas in whole.values())


def test_machines_are_told_apart_within_a_rack() -> None:
    racks: dict[int, str | None] = {1: "a", 2: "a", 3: "a", 4: "b"}
    hosts = {1: "one", 2: "one", 3: "two", 4: "three"}
    (after,) = plan(topic("t", (1, 2, 4)), racks, hosts=hosts).values()
    assert {hosts[broker] for broker in after} == {"one", "two", "three"}


def test_leaders_are_spread_without_moving_anything() -> None:
    now = topic("t", (1, 2, 3), (1, 2, 3), (1, 3, 2))
    after = plan(now, no_racks(1, 2, 3))
    assert moved(now, after) == 0
    assert led(now | after) == {1: 1, 2: 1, 3: 1}


def test_leadership_is_passed_on_over_a_third_broker() -> None:
    now = topic("t", (1, 2), (1, 2), (2, 3), (2, 1))  # 3 leads nothing, and shares no partition with 1
    whole = now | plan(now, {1: None, 2: None, 3: None}, staying=topic("u", (3,), (3,)))
    assert max(led(whole).values()) - min(led(whole).values()) <= 1


def test_the_smallest_of_those_that_could_move_moves() -> None:
    now = topic("t", (1,), (1,))
    sizes = {TopicPartition("t", 0): 1000, TopicPartition("t", 1): 10}
    assert plan(now, no_racks(1, 2), sizes=sizes) == {TopicPartition("t", 1): (2,)}


def test_what_stays_is_counted() -> None:
    now = topic("t", (1,), (2,))
    busy = {place: (2,) for n in range(4) for place in topic(f"busy{n}", (2,))}
    assert plan(now, no_racks(1, 2, 3), staying=busy) == {TopicPartition("t", 1): (3,)}


def test_too_few_brokers_are_told() -> None:
    with pytest.raises(OttlaError, match="t-0 has 3 replicas, and only 2 brokers are left"):
        plan(topic("t", (1, 2, 3)), no_racks(1, 2))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignment, dict[int, str | None], dict[int, str | None], dict[int, str]]:
    brokers = list(range(1, draw(st.integers(2, 8)) + 1))
    rack_count = draw(st.integers(0, 4))
    racks = {broker: f"r{broker % rack_count}" if rack_count else None for broker in brokers}
    source = random.Random(draw(st.integers(0, 1 << 32)))
    host_count = draw(st.integers(1, 8))
    hosts = {broker: f"{racks[broker]}-h{source.randrange(host_count)}" for broker in brokers}
    wanted = dict(source.sample(list(racks.items()), draw(st.integers(1, len(brokers)))))
    now: Assignment = {}
    for name in "abc"[: draw(st.integers(1, 3))]:
        factor = draw(st.integers(1, min(3, len(wanted))))
        for number in range(draw(st.integers(1, 12))):
            now[TopicPartition(name, number)] = tuple(source.sample(brokers, factor))
    return now, racks, wanted, hosts


@given(clusters())
def test_any_plan_is_valid_and_as_even_as_racks_allow(
    given_cluster: tuple[Assignment, dict[int, str | None], dict[int, str | None], dict[int, str]],
) -> None:
    now, racks, wanted, hosts = given_cluster
    after = plan(now, wanted, hosts=hosts)
    whole = now | after
    for place, replicas in whole.items():
        assert set(replicas) <= set(wanted) and len(set(replicas)) == len(replicas) == len(now[place])
        used = Counter(wanted[broker] for broker in replicas if wanted[broker] is not None)
        if used:
            room = len(set(wanted.values()))
            assert len(used) == min(room, len(replicas))
        if not any(racks.values()):
            machines = {hosts[broker] for broker in wanted}
            assert len({hosts[broker] for broker in replicas}) == min(len(machines), len(replicas))
    if not any(racks.values()) and len({hosts[broker] for broker in wanted}) in (1, len(wanted)):
        assert max(held(whole)[broker] for broker in wanted) - min(held(whole)[broker] for broker in wanted) <= 1
    assert plan(whole, wanted, hosts=hosts) == {}, "a plan that was carried out leaves nothing to plan"
    assert plan(now, wanted, hosts=hosts) == after, "the same question has the same answer"
