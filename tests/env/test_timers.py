"""The timer wheel, on a loop whose clock the test moves."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeVarTuple, Unpack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.env.timers import Timer, TimerWheel

Ts = TypeVarTuple("Ts")


class HandCrankedLoop(asyncio.BaseEventLoop):
    """Only what the wheel asks of a loop. `move_to` runs what comes due, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.close()  # it never runs
        self.now = 1000.0
        self.handles: list[asyncio.TimerHandle] = []
        self.armed_ever = 0
        self.errors: list[dict[str, Any]] = []

    def time(self) -> float:
        return self.now

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self)
        self.handles.append(handle)
        self.armed_ever += 1
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self.handles.remove(handle)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def move_to(self, time: float) -> None:
        while due := [handle for handle in self.handles if handle.when() <= time]:
            handle = min(due, key=lambda each: each.when())
            self.handles.remove(handle)
            self.now = max(self.now, handle.when())
            handle._run()
        self.now = time


@pytest.fixture
def loop() -> HandCrankedLoop:
    return HandCrankedLoop()


def test_a_callback_runs_once_with_its_arguments(loop: HandCrankedLoop) -> None:
    seen: list[tuple[int, str]] = []
    wheel = TimerWheel(loop)
    timer = wheel.after(20, lambda number, text: seen.append((number, text)), 7, "x")

    loop.move_to(1001)

    assert seen == [(7, "x")]
    assert not timer.waiting
    timer.cancel()
    loop.move_to(1002)
    assert seen == [(7, "x")]


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 300)), min_size=1, max_size=40))
def test_callbacks_run_never_early_and_at_most_a_tick_late(waits: list[tuple[float, float]]) -> None:
    loop = HandCrankedLoop()
    wheel = TimerWheel(loop, tick_ms=5)
    lateness_ms: list[float] = []
    for pause_ms, delay_ms in waits:
        loop.move_to(loop.now + pause_ms / 1000)
        deadline = loop.now + delay_ms / 1000
        wheel.after(delay_ms, lambda wanted: lateness_ms.append((loop.now - wanted) * 1000), deadline)

    loop.move_to(loop.now + 1)

    assert len(lateness_ms) == len(waits)
    assert min(lateness_ms) > -1e-6
    assert max(lateness_ms) < 10  # a tick, and another for one added on the very tick that fires


def test_the_loop_holds_one_timer_for_all_and_none_when_nothing_waits(loop: HandCrankedLoop) -> None:
    wheel = TimerWheel(loop)
    assert loop.handles == []

    timers = [wheel.after(delay, print) for delay in (500, 30, 900, 10, 10, 11)]
    assert len(loop.handles) == 1
    assert loop.handles[0].when() == pytest.approx(1000.010)

    for timer in timers:
        timer.cancel()
    assert loop.handles == []
    assert len(wheel) == 0


def test_a_thousand_waits_for_one_moment_arm_the_loop_once(loop: HandCrankedLoop) -> None:
    wheel = TimerWheel(loop)
    for _ in range(1000):
        wheel.after(500, int)
    assert loop.armed_ever == 1


def test_a_cancelled_wait_lets_go_of_what_it_held(loop: HandCrankedLoop) -> None:
    wheel = TimerWheel(loop)
    wheel.after(500, int)
    for _ in range(1000):
        wheel.after(500, int).cancel()
    assert sum(map(len, wheel._buckets.values())) == len(wheel) == 1


def test_an_earlier_wait_comes_first_though_added_later(loop: HandCrankedLoop) -> None:
    seen: list[str] = []
    wheel = TimerWheel(loop)
    wheel.after(500, seen.append, "late")
    wheel.after(50, seen.append, "early")
    loop.move_to(1000.2)
    assert seen == ["early"]
    loop.move_to(1001)
    assert seen == ["early", "late"]


def test_after_a_cancelled_bucket_the_next_one_still_fires(loop: HandCrankedLoop) -> None:
    seen: list[str] = []
    wheel = TimerWheel(loop)
    wheel.after(50, seen.append, "cancelled").cancel()
    wheel.after(60, seen.append, "first").cancel()
    wheel.after(500, seen.append, "kept")
    early = wheel.after(20, seen.append, "cancelled too")
    early.cancel()
    loop.move_to(1001)
    assert seen == ["kept"]
    assert loop.handles == []


def test_a_failing_callback_is_told_to_the_loop_and_stops_no_other(loop: HandCrankedLoop) -> None:
    seen: list[str] = []
    wheel = TimerWheel(loop)

    def fail(error: BaseException) -> None:
        raise error

    broken, cancelled = ValueError("broken"), asyncio.CancelledError()
    wheel.after(10, fail, broken)
    wheel.after(10, fail, cancelled)
    wheel.after(10, seen.append, "same tick")
    wheel.after(100, seen.append, "later tick")
    loop.move_to(1001)
    assert seen == ["same tick", "later tick"]
    assert [context["exception"] for context in loop.errors] == [broken, cancelled]


def test_a_callback_may_cancel_a_wait_of_its_own_tick(loop: HandCrankedLoop) -> None:
    seen: list[str] = []
    wheel = TimerWheel(loop)
    victims: list[Timer] = []
    wheel.after(10, lambda: victims[0].cancel())
    victims.append(wheel.after(10, seen.append, "victim"))
    wheel.after(10, seen.append, "other")
    loop.move_to(1001)
    assert seen == ["other"]
    assert len(wheel) == 0


def test_a_wait_added_by_a_callback_runs_in_a_later_tick(loop: HandCrankedLoop) -> None:
    times: list[float] = []
    wheel = TimerWheel(loop)

    def again() -> None:
        times.append(loop.now)
        if len(times) < 4:
            wheel.after(0, again)

    wheel.after(0, again)
    loop.move_to(1001)
    assert len(set(times)) == 4


@pytest.mark.parametrize("from_callback", [False, True])
def test_close_cancels_everything_and_the_wheel_can_be_used_again(loop: HandCrankedLoop, from_callback: bool) -> None:
    seen: list[str] = []
    wheel = TimerWheel(loop)
    if from_callback:
        wheel.after(10, wheel.close)
    wheel.after(10, seen.append, "same tick")
    timer = wheel.after(500, seen.append, "later")
    if not from_callback:
        wheel.close()
    loop.move_to(1001)
    assert seen == []
    assert loop.handles == []
    assert not timer.waiting
    assert len(wheel) == 0

    wheel.after(10, seen.append, "new")
    loop.move_to(1002)
    assert seen == ["new"]


@pytest.mark.parametrize("make_loop", ["asyncio", "uvloop"])
def test_on_a_real_loop_nothing_comes_early(make_loop: str) -> None:
    module = pytest.importorskip(make_loop)
    loop: asyncio.AbstractEventLoop = module.new_event_loop()

    async def wait_for_all() -> list[float]:
        wheel = TimerWheel(asyncio.get_running_loop())
        done: asyncio.Future[None] = loop.create_future()
        early_by: list[float] = []
        for delay in (0, 1, 2, 3, 7, 12, 25):
            wheel.after(delay, lambda wanted: early_by.append(wanted - loop.time()), loop.time() + delay / 1000)
        wheel.after(35, done.set_result, None)
        await done
        return early_by

    try:
        early_by = loop.run_until_complete(wait_for_all())
    finally:
        loop.close()
    assert len(early_by) == 7
    assert max(early_by) < 1e-6
