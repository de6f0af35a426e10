"""What bounds a cleaning: memory, speed, how many at a time; and a process that is ended, or ends by itself."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from numba.core import caching
from tests.log.cleaning.given import Tables, offsets
from tests.log.given import NOW, Machine
from tests.waiting import until

from ottla.broker.broker_part import _cleaner_settings
from ottla.env.disk import PosixDisk
from ottla.env.ports import Disk, WorkerDied, Workplace
from ottla.env.processes import Processes
from ottla.env.worker import RealWorkplace
from ottla.log.cleaning import kernels
from ottla.log.cleaning.contract import Limits
from ottla.log.cleaning.offset_map import OffsetMap
from ottla.log.cleaning.pieces import Pace, in_pieces
from ottla.log.cleaning.planning import plan
from ottla.log.cleaning.warming import warm_up
from ottla.model.config.broker import broker_config, standalone
from ottla.model.names import TopicPartition


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def limits(**given: str) -> Limits:
    names = {f"log.cleaner.{name.replace('_', '.')}": value for name, value in given.items()}
    return _cleaner_settings(broker_config({**standalone("/nowhere", 9092), **names})).limits


def test_memory_and_speed_are_shared_by_as_many_as_may_clean_at_once() -> None:
    """log.cleaner.threads, log.cleaner.dedupe.buffer.size, log.cleaner.io.buffer.size, and so on."""
    found = limits(
        threads="2", dedupe_buffer_size="48000000", io_buffer_size="800000", io_buffer_load_factor="0.5",
        io_max_bytes_per_second="1000000",
    )  # fmt: skip
    assert found == Limits(24_000_000, 0.5, 200_000, 500_000.0)


def test_the_map_takes_no_more_than_its_memory_and_is_no_fuller_than_allowed() -> None:
    """log.cleaner.io.buffer.load.factor"""
    chart = OffsetMap(Limits(24_000, 0.5, 200_000, 1e300), bytes(16), 0, 2**40)
    assert chart.keys.table.nbytes == 24_000
    assert chart.keys.most == 500
    assert chart.keys.marks.nbytes == 16 << 20


def test_every_cleaning_has_a_secret_of_its_own(machine: Machine) -> None:
    """Who has found keys that take each other's place in one, has nothing for the next."""
    tables = Tables(machine)
    tables.put([(b"a", b"1")])
    tables.roll()
    found = plan(tables.log, None, tables.log.end_offset, NOW)
    made = [machine.call(tables.cleaner._contract, tables.log, found, tables.settings.limits) for _ in range(20)]
    assert len({contract.secret for contract in made}) == 20
    assert all(len(contract.secret) == 16 for contract in made)


def test_a_node_starts_without_what_cleaning_needs() -> None:
    program = "import sys, ottla.broker.node; print([name for name in ('numpy', 'numba') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Slow:
    """A workplace whose clock goes only while it rests."""

    def __init__(self) -> None:
        self.disk: Disk = PosixDisk()
        self.rested = 0.0

    def tell(self, news: object) -> None: ...
    def retire(self) -> None: ...
    def come_last(self) -> None: ...
    def let_others(self) -> None: ...
    def rest(self, seconds: float) -> None:
        self.rested += seconds

    def elapsed(self) -> float:
        return self.rested


def test_reading_and_writing_are_no_faster_than_they_may_be() -> None:
    """log.cleaner.io.max.bytes.per.second"""
    place = Slow()
    pace = Pace(place, 1000)
    for _ in range(10):
        pace.take(500)
    assert place.rested == pytest.approx(5.0)


def test_pieces_are_as_large_as_the_buffer(tmp_path: Any) -> None:
    """log.cleaner.io.buffer.size"""
    place, path = Slow(), tmp_path / "file"
    path.write_bytes(bytes(1_000_000))
    sizes: list[int] = []

    def use(data: Any) -> int:
        sizes.append(data.size)
        return int(data.size)

    file = place.disk.open(str(path))
    assert in_pieces(file, 1_000_000, 300_000, Pace(place, 1e300), use)
    assert sizes == [300_000, 300_000, 300_000, 100_000]


@pytest.mark.parametrize("threads", [1, 2])
def test_so_many_logs_are_cleaned_at_a_time(machine: Machine, threads: int) -> None:
    """log.cleaner.threads"""
    tables = Tables(machine, Tables.settings_with(threads=threads), segment_bytes=300)
    logs = [
        machine.call(tables.manager.get_or_create, TopicPartition("table", n), UUID(int=n + 50), tables.config)
        for n in range(1, 4)
    ]
    for log in logs:
        tables.log = log
        for n in range(10):
            tables.put([(b"k", b"%d" % n)])
        tables.roll()
    most = 0

    async def story() -> None:
        nonlocal most
        tables.cleaner.wake()
        while tables.cleaner._looking is not None:
            most = max(most, len(tables.cleaner._running))
            await asyncio.sleep(0.0001)

    machine.wait_for(story)
    assert most == threads
    assert all(len(offsets(log)) < 10 for log in logs)


# -- real processes


def test_others_are_let_once_in_a_while_and_not_for_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine each time costs milliseconds: batches of a tenth of one would take thirty times as long."""
    yielded: list[None] = []
    monkeypatch.setattr(os, "sched_yield", lambda: yielded.append(None))
    place = RealWorkplace(lambda kind, content: None)
    began = time.monotonic()
    while (took := time.monotonic() - began) < 0.05:
        place.let_others()
    assert 1 <= len(yielded) <= took / 0.002 + 1


def its_pid(place: Workplace, _: None) -> int:
    return os.getpid()


def tells(place: Workplace, count: int) -> str:
    for n in range(count):
        place.tell(n)
    return "done"


def fails(place: Workplace, _: None) -> None:
    raise OSError(5, "no such luck")


def hangs(place: Workplace, _: None) -> None:
    place.tell(os.getpid())
    place.rest(600)


def retires(place: Workplace, _: None) -> int:
    place.retire()
    return os.getpid()


def is_there(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


def run(story: Any) -> Any:
    async def whole() -> Any:
        processes = Processes(idle_s=600)
        try:
            return await story(processes)
        finally:
            processes.close()
            await asyncio.sleep(0)

    return asyncio.run(whole())


def nothing(_: object) -> None: ...


def test_a_process_is_used_again_and_ends_with_its_node() -> None:
    async def story(processes: Processes) -> int:
        first = await processes.submit(its_pid, None, nothing)
        assert await processes.submit(its_pid, None, nothing) == first != os.getpid()
        return first

    pid = run(story)
    until(lambda: not is_there(pid))


def test_what_it_tells_is_heard_in_order_before_the_result() -> None:
    async def story(processes: Processes) -> list[object]:
        heard: list[object] = []
        heard.append(await processes.submit(tells, 5, heard.append))
        return heard

    assert run(story) == [0, 1, 2, 3, 4, "done"]


def test_an_error_comes_back_as_it_is() -> None:
    async def story(processes: Processes) -> None:
        with pytest.raises(OSError, match="no such luck"):
            await processes.submit(fails, None, nothing)

    run(story)


def test_who_takes_his_order_back_ends_the_process() -> None:
    async def story(processes: Processes) -> None:
        heard: list[int] = []
        future = processes.submit(hangs, None, heard.append)
        while not heard:
            await asyncio.sleep(0.01)
        future.cancel()
        while is_there(heard[0]):
            await asyncio.sleep(0.01)
        assert await processes.submit(its_pid, None, nothing) != heard[0]

    run(story)


def test_a_process_that_is_killed_is_an_error_and_the_next_order_gets_another() -> None:
    async def story(processes: Processes) -> None:
        heard: list[int] = []
        future = processes.submit(hangs, None, heard.append)
        while not heard:
            await asyncio.sleep(0.01)
        os.kill(heard[0], signal.SIGKILL)
        with pytest.raises(WorkerDied):
            await future
        assert await processes.submit(its_pid, None, nothing) != heard[0]

    run(story)


def test_one_that_retires_is_not_used_again() -> None:
    async def story(processes: Processes) -> None:
        pid = await processes.submit(retires, None, nothing)
        assert await processes.submit(its_pid, None, nothing) != pid

    run(story)


def comes_last(place: Workplace, _: None) -> tuple[int, int]:
    before = os.nice(0)
    place.come_last()
    return before, os.nice(0)


def test_a_process_comes_last_from_when_it_cleans() -> None:
    """Not while it compiles: on a busy machine the first cleaning would wait for that for minutes."""

    async def story(processes: Processes) -> None:
        before, after = await processes.submit(comes_last, None, nothing)
        assert before == os.nice(0)
        assert after == min(before + 10, 19)
        assert await processes.submit(comes_last, None, nothing) == (after, after)

    run(story)


def test_what_cannot_be_kept_is_compiled_where_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that retires would have compiled for nobody."""
    monkeypatch.setattr(kernels, "is_kept", True)
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    made: Any = kernels.compiled(lambda: 7)
    assert made() == 7
    assert not kernels.is_kept
    assert not warm_up()
