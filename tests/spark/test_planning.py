"""Which offsets tasks read: all of them, each once, in about the wanted pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ottla.model.names import TopicPartition
from ottla.spark.planning import SMALL, Range, limited, tasks

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
