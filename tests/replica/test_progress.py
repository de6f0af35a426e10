"""A value that only grows, and those who wait for it."""

from random import Random

from ottla.replica.progress import Progress


def test_who_waits_for_what_is_reached_is_called_at_once() -> None:
    called: list[int] = []
    Progress(5).when(5, lambda: called.append(5))
    assert called == [5]


def test_all_that_is_reached_is_told_in_order_and_once() -> None:
    progress, called = Progress(0), list[str]()
    for value, name in ((3, "three"), (1, "one"), (3, "three again"), (2, "two"), (9, "nine")):
        progress.when(value, lambda name=name: called.append(name))  # type: ignore[misc]
    progress.advance(3)
    progress.advance(3)
    assert called == ["one", "two", "three", "three again"]
    progress.advance(100)
    assert called[4:] == ["nine"]


def test_it_never_goes_back() -> None:
    progress = Progress(7)
    progress.advance(3)
    assert progress.value == 7


def test_a_cancelled_wait_is_silent() -> None:
    progress, called = Progress(0), list[int]()
    waiter = progress.when(1, lambda: called.append(1))
    waiter.cancel()
    progress.advance(1)
    assert called == []


def test_when_there_is_no_use_in_waiting_all_are_called() -> None:
    progress, called = Progress(0), list[int]()
    for value in (5, 2, 9):
        progress.when(value, lambda value=value: called.append(value))  # type: ignore[misc]
    progress.when(4, lambda: called.append(4)).cancel()
    progress.release()
    assert called == [2, 5, 9]
    progress.advance(10)
    assert called == [2, 5, 9], "and not again"
    assert progress.value == 10


def test_a_callback_may_wait_again_and_move_the_value() -> None:
    progress, called = Progress(0), list[int]()

    def again() -> None:
        called.append(progress.value)
        if progress.value < 5:
            progress.when(progress.value + 1, again)
            progress.advance(progress.value + 1)

    progress.when(1, again)
    progress.advance(1)
    assert called == [1, 2, 3, 4, 5]


def test_many_waits_against_a_list() -> None:
    random = Random(3)
    progress, called, waiting = Progress(0), list[int](), list[int]()
    for _ in range(2000):
        if random.random() < 0.6:
            value = progress.value + random.randint(1, 20)
            waiting.append(value)
            progress.when(value, lambda value=value: called.append(value))  # type: ignore[misc]
        else:
            before = len(called)
            progress.advance(progress.value + random.randint(-5, 10))
            due = sorted(value for value in waiting if value <= progress.value)
            waiting = [value for value in waiting if value > progress.value]
            assert called[before:] == due
