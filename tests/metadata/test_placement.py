"""Where replicas of new partitions go."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st
from tests.metadata import given

from ottla.env.randomness import SeededRandom
from ottla.metadata.controller.hosts import host_feature
from ottla.metadata.controller.placement import PlacementError, place
from ottla.metadata.image import BrokerImage, Endpoint


def brokers(
    *ids: int,
    fenced: tuple[int, ...] = (),
    racks: dict[int, str] | None = None,
    hosts: dict[int, str] | None = None,
) -> list[BrokerImage]:
    """Each on a machine of its own, if nothing else is said."""
    model = given.cluster(1).brokers[1]

    def broker(one: int) -> BrokerImage:
        host = (hosts or {}).get(one, f"host-{one}")
        endpoints = (Endpoint("PLAINTEXT", host, 9092, 0),)
        return replace(model, id=one, fenced=one in fenced, rack=(racks or {}).get(one), endpoints=endpoints)

    return [broker(one) for one in ids]


@for_all(st.integers(2, 9), st.integers(1, 40), st.integers(1, 6), st.integers(1, 5), st.integers(1, 3), st.integers())
def test_replicas_share_no_machine_while_others_are_free(
    count: int, partitions: int, factor: int, host_count: int, rack_count: int, seed: int
) -> None:
    ids = tuple(range(1, count + 1))
    hosts = {one: f"host-{one % host_count}" for one in ids}
    racks = {one: f"rack-{one % host_count % rack_count}" for one in ids}
    if factor > count:
        return

    placed = place(brokers(*ids, racks=racks, hosts=hosts), partitions, factor, SeededRandom(Random(seed)))

    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({hosts[one] for one in replicas}) == min(factor, len(set(hosts.values())))


def test_a_broker_that_says_where_it_runs_is_believed() -> None:
    one, two, three = brokers(1, 2, 3)
    features = {**one.features, **dict(host_feature("a machine"))}
    two, one = replace(two, features=features), replace(one, features=features)

    placed = place([one, two, three], 30, 2, SeededRandom(Random(1)))

    assert all(3 in replicas for replicas in placed)


def test_a_broker_that_is_about_to_go_gets_nothing_new() -> None:
    one, two = brokers(1, 2)
    going = replace(two, in_controlled_shutdown=True)

    assert place([one, going], 4, 1, SeededRandom(Random(1))) == [(1,)] * 4


@for_all(
    st.integers(1, 9), st.integers(1, 60), st.integers(1, 9), st.integers(0, 4), st.integers(1, 4), st.integers(0, 99)
)
def test_replicas_are_distinct_and_spread(
    count: int, partitions: int, factor: int, fenced_count: int, rack_count: int, seed: int
) -> None:
    ids = tuple(range(1, count + 1))
    fenced = ids[:fenced_count]
    racks = {one: f"rack-{one % rack_count}" for one in ids}
    if factor > count or len(fenced) == count:
        return

    placed = place(brokers(*ids, fenced=fenced, racks=racks), partitions, factor, SeededRandom(Random(seed)))

    assert len(placed) == partitions
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert replicas[0] not in fenced
        used = {racks[one] for one in replicas}
        assert len(used) == min(factor, len(set(racks.values())))


@pytest.mark.parametrize("seed", range(5))
def test_leaders_are_level_over_brokers_that_are_alike(seed: int) -> None:
    placed = place(brokers(1, 2, 3), 30, 2, SeededRandom(Random(seed)))

    assert Counter(replicas[0] for replicas in placed) == {1: 10, 2: 10, 3: 10}
    assert Counter(one for replicas in placed for one in replicas) == {1: 20, 2: 20, 3: 20}


def test_live_brokers_come_before_fenced_ones() -> None:
    placed = place(brokers(1, 2, 3, fenced=(2,)), 20, 2, SeededRandom(Random(1)))

    assert all(2 not in replicas for replicas in placed)


def test_a_single_broker_takes_all() -> None:
    assert place(brokers(7), 3, 1, SeededRandom(Random(1))) == [(7,), (7,), (7,)]


@pytest.mark.parametrize(
    ("ids", "fenced", "factor", "reason"),
    [
        ((1, 2), (), 3, "cannot be reached because only 2 broker"),
        ((1, 2), (1, 2), 1, "All brokers are currently fenced"),
        ((), (), 1, "All brokers are currently fenced"),
        ((1,), (), 0, "must be positive"),
    ],
)
def test_what_cannot_be_placed(ids: tuple[int, ...], fenced: tuple[int, ...], factor: int, reason: str) -> None:
    with pytest.raises(PlacementError, match=reason):
        place(brokers(*ids, fenced=fenced), 1, factor, SeededRandom(Random(1)))


def test_a_broker_whose_directories_are_all_cordoned_gets_nothing_new() -> None:
    one, two = brokers(1, 2)
    two = replace(two, cordoned_directories=two.directories)

    assert place([one, two], 4, 1, SeededRandom(Random(1))) == [(1,)] * 4
