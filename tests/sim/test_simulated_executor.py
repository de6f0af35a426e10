"""The executor on virtual time."""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from ottla.sim.executor import SimExecutor
from ottla.sim.incarnation import Incarnation
from ottla.sim.loop import SimLoop


@pytest.fixture
def loop() -> Iterator[SimLoop]:
    loop = SimLoop()
    yield loop
    loop.close()


def append_one(numbers: list[int]) -> list[int]:
    numbers.append(1)
    return numbers


def test_a_job_takes_time_and_gives_its_result(loop: SimLoop) -> None:
    executor = SimExecutor(loop, Random(1))

    async def main() -> str:
        return await executor.blocking("{}-{}".format, 1, 2)

    assert loop.run_until_complete(main()) == "1-2"
    assert 0 < loop.time() < 0.1


def test_a_job_gives_its_error(loop: SimLoop) -> None:
    executor = SimExecutor(loop, Random(1))

    async def main() -> None:
        await executor.blocking(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        loop.run_until_complete(main())


def test_jobs_overtake_each_other_by_the_seed(loop: SimLoop) -> None:
    async def order(seed: int) -> tuple[int, ...]:
        executor = SimExecutor(loop, Random(seed))
        done: list[int] = []
        jobs = [executor.blocking(done.append, number) for number in range(4)]
        await asyncio.gather(*jobs)
        return tuple(done)

    async def main() -> None:
        orders = [await order(seed) for seed in range(20)]
        assert len(set(orders)) > 5
        assert orders == [await order(seed) for seed in range(20)]

    loop.run_until_complete(main())


def test_one_worker_keeps_the_order(loop: SimLoop) -> None:
    executor = SimExecutor(loop, Random(1), threads=1)
    done: list[int] = []

    async def main() -> None:
        await asyncio.gather(*[executor.blocking(done.append, number) for number in range(20)])

    loop.run_until_complete(main())
    assert done == list(range(20))


def test_another_process_works_on_copies(loop: SimLoop) -> None:
    executor = SimExecutor(loop, Random(1))
    mine: list[int] = []

    async def main() -> list[int]:
        return await executor.compute(append_one, mine)

    assert loop.run_until_complete(main()) == [1]
    assert mine == []


def test_what_cannot_be_sent_to_a_process_is_refused(loop: SimLoop) -> None:
    executor = SimExecutor(loop, Random(1))
    with pytest.raises((AttributeError, TypeError)):  # by pickle
        executor.compute(lambda: 1)


def test_a_crash_finds_jobs_not_run_or_run_without_anyone_learning_of_it(loop: SimLoop) -> None:
    outcomes = set()

    async def crash_at(seed: int) -> tuple[bool, bool]:
        incarnation = Incarnation("host", 1)
        ran: list[None] = []
        learnt: list[None] = []

        async def work() -> None:
            await SimExecutor(loop, Random(seed), longest_s=1).blocking(ran.append, None)
            learnt.append(None)

        loop.create_task(work(), context=incarnation.context())
        await asyncio.sleep(0.02)
        incarnation.die()
        loop.buried.extend(incarnation.tasks)
        ran_before = bool(ran)
        await asyncio.sleep(10)
        assert bool(ran) == ran_before
        return bool(ran), bool(learnt)

    async def main() -> None:
        for seed in range(100):
            outcomes.add(await crash_at(seed))

    loop.run_until_complete(main())
    assert outcomes == {(False, False), (True, False), (True, True)}


def test_a_closed_executor_takes_no_jobs(loop: SimLoop) -> None:
    executor = SimExecutor(loop, Random(1))
    executor.close()
    with pytest.raises(RuntimeError, match="closed"):
        executor.blocking(print)
