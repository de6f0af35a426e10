"""Whole worlds: hosts that live, die and come back, the same way for the same seed."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sim import echo_story

from ottla.env.ports import Env
from ottla.env.timers import TimerWheel
from ottla.sim.faults import Moment
from ottla.sim.host import HostCrashed
from ottla.sim.incarnation import SimulatedCrash
from ottla.sim.loop import Deadlock, TimeLimit
from ottla.sim.trace import first_difference
from ottla.sim.world import START_MS, World


async def forever(env: Env) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("seed", range(25))
def test_what_the_toy_service_acknowledged_survives_everything(seed: int) -> None:
    trace, acknowledged, journal = echo_story.run(seed)
    assert len(acknowledged) == 60
    assert set(acknowledged) <= set(journal), f"lost in world {seed}\n{trace}"


def test_a_service_that_acknowledges_before_the_sync_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: the simulation must see it."""

    def hasty(self: echo_story.JournalServer, nbytes: int) -> None:
        self._filled += nbytes
        while self._filled >= echo_story.LINE:
            line = bytes(self._buffer[: echo_story.LINE])
            self._buffer[: self._filled - echo_story.LINE] = self._buffer[echo_story.LINE : self._filled]
            self._filled -= echo_story.LINE
            self._journal.write([line], self._journal.size())
            self._transport.write(line)

    monkeypatch.setattr(echo_story.JournalServer, "buffer_updated", hasty)
    losses = 0
    for seed in range(10):
        _, acknowledged, journal = echo_story.run(seed)
        losses += not set(acknowledged) <= set(journal)
    assert losses > 5, "the world is too kind"


def test_two_runs_of_a_seed_are_equal_and_two_seeds_are_not() -> None:
    one, again, other = echo_story.run(3)[0], echo_story.run(3)[0], echo_story.run(4)[0]
    assert first_difference(one, again) is None
    assert one.hash() == again.hash()
    assert one.hash() != other.hash()
    assert first_difference(one, other) is not None
    kinds = {event.event for event in one.events}
    assert {"start", "net deliver", "disk write", "disk sync", "executor blocking"} <= kinds


def test_runs_in_processes_with_other_hash_seeds_are_equal() -> None:
    def run(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "tests.sim.echo_story", "5"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
            text=True,
        ).stdout

    outputs = {run(hash_seed) for hash_seed in ("0", "1", "4242")}
    assert len(outputs) == 1
    trace, _, _ = echo_story.run(5)
    assert outputs == {f"{len(trace.events)} {trace.hash()}\n"}


def test_a_crashed_host_does_nothing_more() -> None:
    seen: list[str] = []

    async def busy(env: Env) -> None:
        wheel = TimerWheel(env.loop)
        wheel.after(2000, seen.append, "timer wheel")
        env.loop.call_later(2, seen.append, "timer")
        env.executor.blocking(seen.append, "done before")
        env.loop.call_later(0.9999, lambda: env.executor.blocking(seen.append, "executor"))
        file = env.disk.open("/file", create=True)
        try:
            while True:
                file.write([b"x"], file.size())
                await asyncio.sleep(0.3)
        finally:
            seen.append("finally")
            file.write([b"y"], file.size())

    with World(1) as world:
        host = world.host("a")

        async def story() -> None:
            process = host.start(busy)
            await asyncio.sleep(1)
            host.crash()
            with pytest.raises(HostCrashed, match="a/main: crash"):
                await process
            await asyncio.sleep(10)

        world.run(story())
        assert seen == ["done before"]
        assert host.disk.snapshot() == {"/file": b"xxxx"}
    assert host.disk.snapshot() == {"/file": b"xxxx"}


def test_a_paused_host_does_nothing_but_its_kernel_goes_on() -> None:
    seen: list[str] = []

    class Hears(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            seen.append("connected")

        def data_received(self, data: bytes) -> None:
            seen.append(data.decode())

    async def serve(env: Env) -> None:
        await (await env.network.listen(Hears, "", 9092)).serve()
        while True:
            await asyncio.sleep(1)
            seen.append(f"tick at {env.loop.time():.1f}")

    async def call(env: Env) -> None:
        transport, _ = await env.network.connect(asyncio.Protocol, "a", 9092)
        transport.write(b"data")

    with World(1) as world:
        host = world.host("a")

        async def story() -> None:
            host.start(serve)
            await asyncio.sleep(1.5)
            host.pause()
            await world.host("b").start(call)
            await asyncio.sleep(2.1)
            assert host.is_up
            assert host.is_paused
            assert seen == ["tick at 1.0"]
            host.resume()
            await asyncio.sleep(0.1)
            assert [each for each in seen if each.startswith("tick")] == ["tick at 1.0", "tick at 3.6"]
            assert seen.count("connected") == 1
            assert "".join(each for each in seen[1:] if each in "data") == "data"
            host.pause()
            host.crash()
            host.resume()
            await asyncio.sleep(3)
            assert len([each for each in seen if each.startswith("tick")]) == 2

        world.run(story())


def test_a_host_comes_back_with_its_disk_and_can_listen_and_lock_again() -> None:
    lives: list[bytes] = []

    async def main(env: Env) -> None:
        env.disk.lock("/lock")
        file = env.disk.open("/file", create=True)
        lives.append(file.pread(100, 0))
        file.write([b"x"], file.size())
        await (await env.network.listen(asyncio.Protocol, "", 9092)).serve()
        await asyncio.Event().wait()

    with World(1) as world:
        host = world.host("a")

        async def story() -> None:
            host.start(main)
            for _ in range(3):
                await asyncio.sleep(1)
                host.restart(main)
            await asyncio.sleep(1)

        world.run(story())
    assert lives == [b"", b"x", b"xx", b"xxx"]


@pytest.mark.parametrize("power_loss", [False, True])
def test_a_crash_planned_at_a_disk_operation_ends_the_host_there(power_loss: bool) -> None:
    reached: list[int] = []

    async def main(env: Env) -> None:
        env.disk.sync_dir("/")
        file = env.disk.open("/file", create=True)
        for number in range(10):
            try:
                file.write([b"x"], number)
            except Exception:
                reached.append(-1)  # one does not handle one's own death
            reached.append(number)
            await asyncio.sleep(1)

    with World(1) as world:
        host = world.host("a")

        async def story() -> None:
            host.crash_at(5, Moment.AFTER, power_loss=power_loss)
            with pytest.raises(HostCrashed):
                await host.start(main)
            assert not host.is_up

        world.run(story())
        assert reached == [0, 1]
        expected = [{"/file": b"xxx"}] if not power_loss else [{}, *[{"/file": b"x" * n} for n in range(4)]]
        assert host.disk.snapshot() in expected


def test_a_crash_planned_in_an_executors_job_ends_the_host_too() -> None:
    learnt: list[str] = []

    async def main(env: Env) -> None:
        file = env.disk.open("/file", create=True)
        file.write([b"x"], 0)
        await env.executor.blocking(file.sync)
        learnt.append("synced")

    with World(1) as world:
        host = world.host("a")

        async def story() -> None:
            host.crash_at(3, Moment.AFTER)
            with pytest.raises(HostCrashed):
                await host.start(main)

        world.run(story())
        assert learnt == []
        assert any(event.event == "disk crash" for event in world.trace.events)


def test_objects_of_a_dead_incarnation_reach_nothing() -> None:
    with World(1) as world:
        host, other = world.host("a"), world.host("b")

        async def story() -> None:
            received = bytearray()

            class Receiver(asyncio.Protocol):
                def data_received(self, data: bytes) -> None:
                    received.extend(data)

            await (await other.env.network.listen(Receiver, "", 1)).serve()
            old = host.env
            file = old.disk.open("/file", create=True)
            transport, _ = await old.network.connect(asyncio.Protocol, "b", 1)
            transport.write(b"before")
            await asyncio.sleep(1)
            host.crash()
            transport.write(b"after")
            transport.abort()
            with pytest.raises(SimulatedCrash):
                file.write([b"x"], 0)
            with pytest.raises(SimulatedCrash):
                await old.network.listen(asyncio.Protocol, "", 2)
            with pytest.raises(SimulatedCrash):
                await old.network.connect(asyncio.Protocol, "b", 1)
            await asyncio.sleep(1)
            assert received == b"before"
            assert host.disk.snapshot() == {"/file": b""}

        world.run(story())


def test_a_host_that_is_down_may_lose_its_power_as_well() -> None:
    async def main(env: Env) -> None:
        env.disk.open("/file", create=True)

    seen = set()
    for seed in range(20):
        with World(seed) as world:
            host = world.host("a")

            async def story(host: object = host) -> None:
                await world.host("a").start(main)
                world.host("a").crash()
                world.host("a").power_loss()

            world.run(story())
            seen.add(host.disk.exists("/file"))
    assert seen == {True, False}


def test_clocks_may_be_wrong() -> None:
    with World(1) as world:
        right, ahead, slow = (
            world.host("right"),
            world.host("ahead", skew_ms=1000),
            world.host("slow", drift=-0.5),
        )

        async def story() -> None:
            await asyncio.sleep(10)
            assert right.env.clock.now_ms() == START_MS + 10_000
            assert ahead.env.clock.now_ms() == START_MS + 11_000
            assert slow.env.clock.now_ms() == START_MS + 5000
            ahead.clock.skew_ms = -60_000
            assert ahead.env.clock.now_ms() == START_MS - 50_000

        world.run(story())


def test_ids_come_from_the_seed_and_differ_between_lives() -> None:
    def ids(seed: int) -> list[str]:
        with World(seed) as world:
            first = world.host("a").env.random.uuid()
            world.host("a").crash()
            return [str(first), str(world.host("a").env.random.uuid()), str(world.host("b").env.random.uuid())]

    assert ids(1) == ids(1)
    assert len({*ids(1), *ids(2)}) == 6


def test_an_error_that_nobody_handles_fails_the_run() -> None:
    async def fail(env: Env) -> None:
        raise ValueError("in a process")

    def callback() -> None:
        raise ValueError("in a callback")

    with World(1) as world:
        host = world.host("a")

        async def story() -> None:
            host.start(fail)
            host.call(world.loop.call_soon, callback)
            await asyncio.sleep(1)

        with pytest.raises(BaseExceptionGroup, match="of seed 1") as caught:
            world.run(story())
        assert sorted(str(error) for error in caught.value.exceptions) == ["in a callback", "in a process"]
        world.run(asyncio.sleep(1))


def test_an_error_that_is_awaited_belongs_to_who_awaits() -> None:
    async def fail(env: Env) -> None:
        raise ValueError("seen")

    with World(1) as world:

        async def story() -> None:
            with pytest.raises(ValueError, match="seen"):
                await world.host("a").start(fail)

        world.run(story())


def test_a_story_that_hangs_says_who_waits_and_in_which_world() -> None:
    with World(77) as world:

        async def story() -> None:
            await world.host("a").start(forever, "waiting-room")

        with pytest.raises(Deadlock, match=r"a/waiting-room: forever at .*test_simulated_world\.py") as caught:
            world.run(story())
        assert caught.value.__notes__ == ["simulated world, seed 77, at 0.000000 s"]


def test_a_story_may_have_a_time_limit() -> None:
    with World(1) as world, pytest.raises(TimeLimit):
        world.run(asyncio.sleep(100), limit_s=10)
