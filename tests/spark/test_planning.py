"""Which offsets tasks read: all of them, each once, in about the wanted pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.tier.given import segment

from ottla.model.names import TopicPartition
from ottla.spark.planning import SMALL, Range, limited, tasks
from ottla.spark.tier_planning import InTier

some_ranges = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=12).map(
    lambda bounds: [Range(TopicPartition("t", n), a, a + size) for n, (a, size) in enumerate(bounds)]
)
A, B, C = (TopicPartition("t", n) for n in range(3))


@given(some_ranges, st.none() | st.integers(1, 40), st.none() | st.integers(1000, 10**6))
def test_every_offset_is_read_once(ranges: list[Range], least: int | None, most: int | None) -> None:
    planned = [piece for task in tasks(ranges, least, most) for piece in task]
    for one in ranges:
        own = sorted(piece[1:3] for piece in planned if piece.place == one.place)
        assert all(end == start for (_, end), (start, _) in pairwise(own))
        assert not own if one.size == 0 else (own[0][0], own[-1][1]) == (one.start, one.end)


@given(some_ranges, st.integers(1, 40))
def test_as_many_tasks_as_wanted(ranges: list[Range], least: int) -> None:
    total = sum(one.size for one in ranges)
    if total >= 100 * least:
        assert len(tasks(ranges, least)) >= least * 0.6  # rounding: a partition is split into whole parts


@given(some_ranges, st.integers(1000, 10**6))
def test_no_task_has_more_than_wanted(ranges: list[Range], most: int) -> None:
    assert all(sum(piece.size for piece in task) <= most for task in tasks(ranges, None, most))


def test_small_ranges_share_a_task() -> None:
    ranges = [Range(TopicPartition("t", n), 0, SMALL // 10) for n in range(20)]
    assert [len(task) for task in tasks(ranges)] == [10, 10]


def test_a_large_range_has_a_task_of_its_own() -> None:
    assert len(tasks([Range(A, 0, SMALL), Range(B, 0, 5), Range(C, 0, 10 * SMALL)])) == 3


def test_each_partition_gets_its_share_of_a_limit() -> None:
    assert limited({A: 0, B: 100, C: 7}, {A: 900, B: 200, C: 7}, 100) == {A: 90, B: 110, C: 7}


def test_a_small_partition_is_not_starved() -> None:
    assert limited({A: 0, B: 0}, {A: 1_000_000, B: 3}, 10) == {A: 9, B: 1}


def test_less_than_the_limit_is_read_at_once() -> None:
    assert limited({A: 0}, {A: 5, B: 4}, 9) == {A: 5, B: 4}


@given(st.dictionaries(st.sampled_from([A, B, C]), st.tuples(st.integers(0, 99), st.integers(0, 999))))
def test_a_limit_is_reached_in_the_end(bounds: dict[TopicPartition, tuple[int, int]]) -> None:
    start = {place: first for place, (first, _) in bounds.items()}
    end = {place: first + size for place, (first, size) in bounds.items()}
    for _ in range(1100):
        if start == end:
            break
        start = limited(start, end, 100)
    assert start == end


MIB = 1024 * 1024


def in_tier(place: TopicPartition, count: int, size: int, records: int = 1000) -> list[Range]:
    """Segments of so many bytes that follow each other."""
    segments = [segment(n, n * records, (n + 1) * records - 1, size=size) for n in range(count)]
    return [Range(place, one.start_offset, one.end_offset + 1, None, InTier(one)) for one in segments]


def test_small_segments_of_the_tier_share_a_task_and_large_ones_have_their_own() -> None:
    small = tasks(in_tier(A, 9, 16 * MIB, SMALL) + in_tier(B, 3, 16 * MIB, SMALL))
    assert sorted(map(len, small)) == [3, 4, 5]  # 144 MiB in two tasks of about the same size
    assert all(len({one.place for one in task}) == 1 for task in small)
    assert [len(task) for task in tasks(in_tier(A, 4, 1024 * MIB, SMALL))] == [1] * 4


def test_segments_of_the_tier_are_spread_if_more_tasks_are_wanted() -> None:
    assert len(tasks(in_tier(A, 40, MIB), 8)) >= 8


def test_what_the_brokers_have_is_not_joined_to_the_tier() -> None:
    cold = in_tier(A, 2, 16 * MIB, SMALL)
    warm = Range(A, cold[-1].end, cold[-1].end + SMALL)
    assert tasks([*cold, warm]) == [cold, [warm]]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.none() | st.integers(1, 40))
def test_every_segment_is_read_once(sizes: list[int], least: int | None) -> None:
    given = [
        Range(A, n * 1000, (n + 1) * 1000, None, InTier(segment(n, n * 1000, n * 1000 + 999, size=size * MIB)))
        for n, size in enumerate(sizes)
    ]
    planned = sorted((piece for task in tasks(given, least) for piece in task), key=lambda one: one.start)
    assert (planned[0].start, planned[-1].end) == (0, 1000 * len(sizes))
    assert all(a.end == b.start for a, b in pairwise(planned))
