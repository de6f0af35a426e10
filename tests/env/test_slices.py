"""Work in slices: set aside when its time is over, taken up where it was, ended wherever it is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from ottla.env.slices import MOST_ROWS, SLICE_SECONDS, Rows, Sliced, TooManyRows, Work, breathe, take_on, whole


@pytest.fixture
def clock() -> Iterator[float]:
    """Each look at it takes a third of a slice."""
    return (number * SLICE_SECONDS / 3 for number in count())


def test_work_goes_on_where_it_was(clock: Iterator[float]) -> None:
    seen: list[int] = []

    def run() -> str:
        for number in range(10):
            seen.append(number)
            breathe()
        return "done"

    work = Work(lambda: next(clock), run)
    lengths = []
    while not work.is_done:
        work.go_on()
        lengths.append(len(seen))
    assert lengths == [3, 6, 9, 10] and seen == list(range(10))
    assert work.outcome() == "done"


def test_what_it_raises_is_raised_to_who_asks() -> None:
    def run() -> None:
        raise ValueError("wrong")

    work = Work(lambda: 0.0, run)
    work.go_on()
    with pytest.raises(ValueError, match="wrong"):
        work.outcome()


def test_arrays_breathe_by_themselves_and_are_whole_on_demand(clock: Iterator[float]) -> None:
    rows = Rows(range(100))
    for through, slices in ((lambda: sum(rows), 3), (lambda: whole(sum, rows), 1)):
        work = Work(lambda: next(clock), through)
        used = 0
        while not work.is_done:
            work.go_on()
            used += 1
        assert (work.outcome(), used) == (4950, slices)


def test_given_up_it_ends_there_and_cleans_up(clock: Iterator[float]) -> None:
    ended = []

    def run() -> None:
        try:
            while True:
                breathe()
        finally:
            ended.append(True)

    work = Work(lambda: next(clock), run)
    work.go_on()
    assert not work.is_done and not ended
    work.give_up()
    assert ended


def test_one_piece_of_work_has_so_many_rows_and_no_more() -> None:
    def run() -> None:
        take_on(MOST_ROWS - 1)
        take_on(1)
        take_on(1)

    work = Work(lambda: 0.0, run)
    work.go_on()
    with pytest.raises(TooManyRows):
        work.outcome()
    take_on(MOST_ROWS + 1)  # outside of work nobody counts


def test_a_coroutine_lets_others_have_their_turn_between_its_own_waits(clock: Iterator[float]) -> None:
    turns: list[str] = []

    async def long() -> int:
        for _ in range(9):
            turns.append("long")
            breathe()
        await asyncio.sleep(0.001)
        with pytest.raises(ZeroDivisionError):
            await failing()
        return 5

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def other() -> None:
        while len(turns) < 12:
            turns.append("other")
            await asyncio.sleep(0)

    async def story() -> int:
        task = asyncio.create_task(other())
        result = await Sliced(lambda: next(clock), long())
        await task
        return result

    assert asyncio.run(story()) == 5
    assert turns.index("other") < 5  # long before the long one was through


def test_a_coroutine_that_is_cancelled_in_the_middle_of_a_step_cleans_up(clock: Iterator[float]) -> None:
    ended = []

    async def long() -> None:
        try:
            while True:
                breathe()
        finally:
            ended.append(True)

    async def run() -> None:
        await Sliced(lambda: next(clock), long())

    async def story() -> None:
        task = asyncio.create_task(run())
        await asyncio.sleep(0)
        assert not ended
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended

    asyncio.run(story())
