"""Long work on the loop, in slices: others have their turn every few milliseconds.

A request may have fifty thousand rows, and answering it takes a second or more. Its code stays plain: where rows
are gone through, `breathe` is called, and once the slice is used up the work is set aside right there, stack and all
(it is a greenlet), and goes on later. Arrays of messages breathe by themselves when they are gone through: see `Rows`.

Between two breaths nothing else happens, but during one anything may: what must see one state is done `whole`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextvars import copy_context
from functools import partial
from math import inf
from typing import Any, Final, Generic, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

A = TypeVar("A")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)

SLICE_SECONDS: Final = 0.004
MOST_ROWS: Final = 50_000  # in one piece of work
MANY_ROWS: Final = 32  # from here on an array breathes
_EVERY: Final = 16  # rows


class TooManyRows(Exception):
    pass


class Work(greenlet, Generic[R]):  # type: ignore[misc]  # greenlet has no types
    """Begun and taken up again by `go_on`; `outcome` once it `is_done`."""

    def __init__(self, elapsed: Callable[[], float], function: Callable[[], R]) -> None:
        super().__init__()
        self.gr_context = copy_context()
        self.elapsed = elapsed
        self.due = 0.0
        self.rows_left = MOST_ROWS
        self._function = function
        self._result: R | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._result = self._function()
        except GreenletExit:
            raise
        except BaseException as error:
            self._error = error

    def go_on(self) -> None:
        self.parent = getcurrent()
        self.due = self.elapsed() + SLICE_SECONDS
        self.switch()

    @property
    def is_done(self) -> bool:
        return bool(self.dead)

    def outcome(self) -> R:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]

    def give_up(self) -> None:
        """Wherever it is, it ends there; what it does on its way out may breathe, and is not waited for."""
        if getcurrent() is self:
            raise GreenletExit
        while not self.dead:
            self.parent = getcurrent()
            self.throw()


def breathe() -> None:
    """Inside of a `Work` whose slice is used up: lets others have their turn. Elsewhere nothing."""
    work = getcurrent()
    if type(work) is Work and work.elapsed() >= work.due:
        work.parent.switch()


def take_on(rows: int) -> None:
    """Said by who is about to read that many rows of a message."""
    work = getcurrent()
    if type(work) is Work:
        work.rows_left -= rows
        if work.rows_left < 0:
            raise TooManyRows(f"more than {MOST_ROWS} rows in one message")


def is_sliced() -> bool:
    return type(getcurrent()) is Work


def whole(function: Callable[[A], R], argument: A) -> R:
    """Nobody takes a breath meanwhile: what the function reads and changes is of one moment."""
    work = getcurrent()
    if type(work) is not Work:
        return function(argument)
    due, work.due = work.due, inf
    try:
        return function(argument)
    finally:
        work.due = due


class Rows(tuple[T_co, ...]):
    """An array that lets others have their turn while it is gone through."""

    __slots__ = ()

    def __iter__(self) -> Iterator[T_co]:
        for number, row in enumerate(super().__iter__()):
            if not number % _EVERY:
                breathe()
            yield row


def numbers(count: int) -> Iterable[int]:
    """From 0 on, for who reads that many rows by hand: in a `Work`, others have their turn meanwhile."""
    return range(count) if count < MANY_ROWS or not is_sliced() else _breathing(count)


def _breathing(count: int) -> Iterator[int]:
    for number in range(count):
        if not number % _EVERY:
            breathe()
        yield number


class Sliced(Generic[R]):
    """A coroutine, awaited so that each of its steps is a `Work`."""

    def __init__(self, elapsed: Callable[[], float], coroutine: Coroutine[Any, Any, R]) -> None:
        self._elapsed = elapsed
        self._coroutine = coroutine

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, R]:
        go_on: Callable[[], Any] = partial(self._coroutine.send, None)
        step = go_on
        while True:
            work = Work(self._elapsed, step)
            work.go_on()
            while not work.is_done:
                try:
                    yield
                except BaseException:
                    work.give_up()
                    raise
                work.go_on()
            try:
                waits_for = work.outcome()
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            try:
                yield waits_for
            except BaseException as error:
                step = partial(self._coroutine.throw, error)
            else:
                step = go_on
