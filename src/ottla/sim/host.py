"""A simulated machine: a disk that outlives its processes, a clock, and one process at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, Generic, ParamSpec, TypeVar

from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.sim.disk import SimDisk
from ottla.sim.executor import SimExecutor
from ottla.sim.faults import Moment
from ottla.sim.incarnation import Incarnation, SimulatedCrash
from ottla.sim.loop import SimLoop
from ottla.sim.network import SimNetwork
from ottla.sim.object_store import SimBucket
from ottla.sim.trace import Trace

P = ParamSpec("P")
T = TypeVar("T")


class HostCrashed(Exception):
    """For whoever waits, outside, for something that a host was doing when it crashed."""


class SimClock:
    """Wall-clock time, which may be wrong: ahead or behind by `skew_ms`, fast or slow by `drift`."""

    def __init__(self, loop: SimLoop, start_ms: int, skew_ms: int = 0, drift: float = 0.0) -> None:
        self._loop = loop
        self._start_ms = start_ms
        self.skew_ms = skew_ms
        self.drift = drift

    def now_ms(self) -> int:
        return self._start_ms + self.skew_ms + int(self._loop.time() * 1000 * (1 + self.drift))

    def elapsed(self) -> float:
        return self._loop.time()


class Process(Generic[T]):
    """Something that runs on a host. Awaiting it gives its result, its error, or HostCrashed."""

    __slots__ = ("_future", "awaited", "name", "task")

    def __init__(self, loop: SimLoop, name: str) -> None:
        self.name = name
        self.awaited = False
        self.task: asyncio.Task[T] | None = None  # held here, as asyncio itself holds tasks only weakly
        self._future: asyncio.Future[T] = loop.create_future()

    def __await__(self) -> Generator[Any, None, T]:
        self.awaited = True
        return asyncio.shield(self._future).__await__()  # who stops waiting does not stop the process

    def done(self) -> bool:
        return self._future.done()

    def take_failure(self) -> BaseException | None:
        """The error it ended with, once; HostCrashed is none, and neither is an error that somebody awaits."""
        if not self._future.done() or self._future.cancelled() or self.awaited:
            return None
        self.awaited = True
        error = self._future.exception()
        return None if isinstance(error, HostCrashed) else error

    def ended(self, task: asyncio.Task[T]) -> None:
        if self._future.done():
            return
        if task.cancelled():
            self._future.cancel()
        elif (error := task.exception()) is None:
            self._future.set_result(task.result())
        elif not isinstance(error, SimulatedCrash):
            self._fail(error)

    def crashed(self, reason: str) -> None:
        if not self._future.done():
            self._fail(HostCrashed(f"{self.name}: {reason}"))

    def _fail(self, error: BaseException) -> None:
        self._future.set_exception(error)
        self._future.exception()  # asyncio would complain of one that nobody looks at; World does that, in order


class Host:
    def __init__(
        self,
        name: str,
        loop: SimLoop,
        network: SimNetwork,
        clock: SimClock,
        trace: Trace,
        random: Callable[[str], Random],
        cold_reads: float,
        bucket: SimBucket,
    ) -> None:
        self.name = name
        self.clock = clock
        self.incarnation: Incarnation | None = None
        self.disk = SimDisk(
            random(f"{name}/disk"),
            now_ms=clock.now_ms,
            cold_reads=cold_reads,
            observe=lambda event, details: trace.note(name, event, details),
            on_death=self._planned_death,
        )
        self.processes: list[Process[Any]] = []
        self.before_end: list[Callable[[SimDisk, bool], None]] = []
        """Told of each crash and power loss (true), with the disk as the dying process last saw it."""
        self.after_end: list[Callable[[SimDisk, bool], None]] = []
        """The same, with the disk as the next process will find it."""
        self._env: Env | None = None
        self._loop = loop
        self._network = network
        self._trace = trace
        self._random = random
        self._bucket = bucket
        self._lives = 0
        self.power_loss_planned = False
        """Whether the crash that `crash_at` has planned takes the page cache with it."""

    @property
    def is_up(self) -> bool:
        return self.incarnation is not None and self.incarnation.alive

    @property
    def env(self) -> Env:
        """The world of the process that runs now; one is started if none does."""
        if self._env is None or not self.is_up:
            self._env = self._boot()
        return self._env

    def start(self, main: Callable[[Env], Coroutine[Any, Any, T]], name: str = "main") -> Process[T]:
        """Runs something on this host, in the process that runs already or in a new one."""
        env = self.env
        assert self.incarnation is not None
        process: Process[T] = Process(self._loop, f"{self.name}/{name}")
        self.processes.append(process)
        context = self.incarnation.context()
        task = self._loop.create_task(main(env), name=process.name, context=context)
        process.task = task
        task.add_done_callback(process.ended, context=self._network.context)
        return process

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function as this host: what it starts dies with the host."""
        assert self.env is not None
        assert self.incarnation is not None
        return self.incarnation.context().run(function, *args, **kwargs)

    def restart(self, main: Callable[[Env], Coroutine[Any, Any, T]], name: str = "main") -> Process[T]:
        if self.is_up:
            self.crash()
        return self.start(main, name)

    def crash(self) -> None:
        """kill -9: the process is gone, its kernel closes its connections, the page cache stays."""
        self._end("crash", self.disk.crash, vanish=False)

    def power_loss(self) -> None:
        """The machine is gone: no goodbye on the network, and the disk keeps what was synced."""
        self._end("power loss", self.disk.power_loss, vanish=True)

    def replace_disk(self) -> None:
        """As a power loss, and nothing at all is left."""
        self._end("new disk", self.disk.replaced, vanish=True)

    def pause(self) -> None:
        """SIGSTOP: the process does nothing, its kernel goes on: connections stay, new ones are accepted."""
        if self.incarnation is not None and self.incarnation.runs:
            self.incarnation.runs = False
            self._trace.note(self.name, "pause", f"life {self._lives}")

    def resume(self) -> None:
        """SIGCONT. Timers that have run out meanwhile run out now."""
        if self.is_paused and self.incarnation is not None:
            self._trace.note(self.name, "resume", f"life {self._lives}")
            self._loop.resume(self.incarnation)

    @property
    def is_paused(self) -> bool:
        return self.incarnation is not None and self.incarnation.alive and not self.incarnation.runs

    def crash_at(self, operation: int, moment: Moment = Moment.BEFORE, *, power_loss: bool = False) -> None:
        """Plans a crash, or a power loss, at a mutating disk operation, counted from 1 from now on."""
        assert self.env is not None
        self.power_loss_planned = power_loss
        self.disk.crash_at(self.disk.operations + operation, moment)

    def _boot(self) -> Env:
        self._lives += 1
        self.incarnation = incarnation = Incarnation(self.name, self._lives)
        self._trace.note(self.name, "start", f"life {self._lives}, disk {self.disk.digest()}")
        life = f"{self.name}/{self._lives}"
        return Env(
            clock=self.clock,
            disk=self.disk,
            network=self._network.attach(self.name, incarnation),
            executor=SimExecutor(
                self._loop,
                self._random(f"{life}/executor"),
                observe=lambda event, details: self._trace.note(self.name, event, details),
                disk=self.disk,
            ),
            random=SeededRandom(self._random(f"{life}/random")),
            open_store=lambda url, options: self._bucket.client(self.name),
        )

    def _planned_death(self) -> None:
        if self.power_loss_planned:
            self.power_loss()
        else:
            self.crash()

    def _end(self, how: str, next_disk: Callable[[], SimDisk], *, vanish: bool) -> None:
        if self.incarnation is not None and self.incarnation.alive:
            self.incarnation.die()
            self._loop.buried.extend(self.incarnation.tasks)
            self._loop.buried.extend(self.incarnation.held)
        for listener in self.before_end:
            listener(self.disk, vanish)
        self._network.detach(self.name, vanish=vanish)
        # A host that is down already may lose its power too: the page cache of the dead process goes with it.
        self.disk = next_disk()
        self._trace.note(self.name, how, f"life {self._lives}, leaves disk {self.disk.digest()}")
        for process in self.processes:
            process.crashed(how)
        for listener in self.after_end:
            listener(self.disk, vanish)
