"""The event loop on virtual time."""

import asyncio
import gc
import time
from collections.abc import Iterator
from random import Random

import pytest

from ottla.env.timers import TimerWheel
from ottla.sim.incarnation import Incarnation
from ottla.sim.loop import Deadlock, Livelock, SimLoop, TimeLimit


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop()
    yield loop
    loop.close()


def test_a_day_passes_in_no_time(loop: SimLoop) -> None:
    before = time.monotonic()
    loop.run_until_complete(asyncio.sleep(86_400))
    assert loop.time() == 86_400
    assert time.monotonic() - before < 1000


def test_callbacks_of_one_moment_run_in_the_order_in_which_they_were_made(loop: SimLoop) -> None:
    seen: list[int] = []
    for number in range(50):
        loop.call_later(1, seen.append, number)
    loop.call_later(0.5, seen.append, -1)
    loop.run_until_complete(asyncio.sleep(2))
    assert seen == [-1, *range(50)]


def test_order_stays_when_cancelled_timers_are_swept_out(loop: SimLoop) -> None:
    seen: list[int] = []
    random = Random(3)
    kept = []
    for number in range(2000):
        moment = random.randrange(10)
        handle = loop.call_later(1 + moment, seen.append, number)
        if number % 10:
            handle.cancel()
        else:
            kept.append((moment, number))
    loop.run_until_complete(asyncio.sleep(20))
    assert seen == [number for _, number in sorted(kept)]


def test_asyncio_works_on_it(loop: SimLoop) -> None:
    async def worker(queue: asyncio.Queue[int], results: list[int]) -> None:
        while True:
            number = await queue.get()
            await asyncio.sleep(number)
            results.append(number)

    async def main() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue()
        results: list[int] = []
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(worker(queue, results)) for _ in range(3)]
            for number in (3, 1, 2, 1):
                queue.put_nowait(number)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await asyncio.Event().wait()
            for task in workers:
                task.cancel()
        return results

    assert loop.run_until_complete(main()) == [1, 2, 1, 3]
    assert loop.time() == 5


def test_the_timer_wheel_works_on_it(loop: SimLoop) -> None:
    async def main() -> float:
        done: asyncio.Future[None] = loop.create_future()
        TimerWheel(loop).after(500, done.set_result, None)
        await done
        return loop.time()

    assert loop.run_until_complete(main()) == pytest.approx(0.5, abs=0.006)


def test_a_deadlock_is_told_with_those_who_wait(loop: SimLoop) -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(forgotten(), name="the-forgotten-one")

    with pytest.raises(Deadlock, match=r"the-forgotten-one: .*forgotten at .*test_virtual_time_loop\.py"):
        loop.run_until_complete(main())


def test_a_cancelled_timer_does_not_hide_a_deadlock(loop: SimLoop) -> None:
    loop.call_later(10, print).cancel()
    with pytest.raises(Deadlock, match=r"at 0\.000000 s"):
        loop.run_until_complete(loop.create_future())


def test_a_busy_loop_is_told(loop: SimLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.sim.loop._SPINS", 1000)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="time is still"):
        loop.run_until_complete(spin())


def test_time_can_be_limited(loop: SimLoop) -> None:
    async def tick() -> None:
        while True:
            await asyncio.sleep(1)

    loop.time_limit = 100
    with pytest.raises(TimeLimit, match=r"100\.000 s"):
        loop.run_until_complete(tick())


def test_threads_sockets_and_processes_are_refused_with_what_to_use_instead(loop: SimLoop) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"use Env\.executor\.blocking"):
            loop.run_in_executor(None, print)
        with pytest.raises(RuntimeError, match=r"use Env\.executor\.blocking"):
            await asyncio.to_thread(print)
        with pytest.raises(RuntimeError, match="call_soon"):
            loop.call_soon_threadsafe(print)
        with pytest.raises(RuntimeError, match=r"use Env\.network\.listen"):
            await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        with pytest.raises(RuntimeError, match=r"use Env\.network\.connect"):
            await asyncio.open_connection("127.0.0.1", 1)
        with pytest.raises(RuntimeError, match=r"use Env\.executor\.compute"):
            await asyncio.create_subprocess_exec("true")

    loop.run_until_complete(main())


def test_an_error_in_a_callback_reaches_the_handler(loop: SimLoop) -> None:
    told: list[BaseException] = []
    loop.set_exception_handler(lambda _, context: told.append(context["exception"]))

    def fail() -> None:
        raise ValueError("broken")

    loop.call_soon(fail)
    loop.run_until_complete(asyncio.sleep(1))
    assert [str(error) for error in told] == ["broken"]


def test_what_belongs_to_a_dead_incarnation_never_runs(loop: SimLoop) -> None:
    seen: list[str] = []
    dead, living = Incarnation("dead", 1), Incarnation("living", 1)

    async def live(name: str) -> None:
        try:
            for number in range(3):
                seen.append(f"{name} {number}")
                await asyncio.sleep(1)
        finally:
            seen.append(f"{name} ends")

    async def main() -> None:
        for incarnation in (dead, living):
            loop.create_task(live(incarnation.host), context=incarnation.context())
        loop.call_later(1.6, seen.append, "timer of the dead", context=dead.context())
        await asyncio.sleep(1.5)
        dead.die()
        loop.buried.extend(dead.tasks)
        await asyncio.sleep(10)
        gc.collect()

    loop.run_until_complete(main())
    assert seen == ["dead 0", "living 0", "dead 1", "living 1", "living 2", "living ends"]


def test_the_dead_do_not_keep_time_going(loop: SimLoop) -> None:
    incarnation = Incarnation("dead", 1)
    loop.create_task(asyncio.sleep(1000), context=incarnation.context())
    loop.call_later(1, setattr, incarnation, "alive", False)
    with pytest.raises(Deadlock, match=r"at 1\.000000 s"):
        loop.run_until_complete(loop.create_future())


def test_the_collector_is_as_it_was_after_a_run(loop: SimLoop) -> None:
    async def is_off() -> bool:
        return not gc.isenabled()

    assert loop.run_until_complete(is_off())
    assert gc.isenabled()


@pytest.mark.filterwarnings("error")
def test_what_a_coroutine_starts_while_it_is_closed_is_closed_too() -> None:
    loop, closed = SimLoop(), []

    async def last_words(depth: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            closed.append(depth)

    async def held() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            closed.append(0)
            asyncio.ensure_future(last_words(1))  # noqa: RUF006

    task = loop.create_task(held())
    loop.run_until_complete(asyncio.sleep(1))
    loop.close()
    del task
    gc.collect()

    assert closed == [0]


def test_one_that_is_forgotten_takes_nothing_from_the_one_that_runs() -> None:
    """It is closed when garbage is collected, in the middle of whatever happens to run then."""

    async def collect() -> asyncio.AbstractEventLoop:
        SimLoop()
        gc.collect()
        return asyncio.get_running_loop()

    with asyncio.Runner() as runner:
        assert runner.run(collect()) is runner.get_loop()
