"""Processes that do long work for a node, one order at a time: started when needed, ended after a rest."""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ottla.env.ports import WorkerDied, Workplace
from ottla.env.worker import LENGTH, Said, framed

T = TypeVar("T")
A = TypeVar("A")
IDLE_S: Final = 30.0  # the memory of one that has nothing to do is worth more than the second its start takes


# Not `-m`: what it answers with must have the same names there and here.
_MAIN: Final = "from ottla.env.worker import main; main()"


class _Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.process.returncode is None:
            self.process.kill()
        self.process._transport.close()  # type: ignore[attr-defined]  # else its pipes outlive the loop


class Processes:
    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._idle: list[_Worker] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def submit(
        self, work: Callable[[Workplace, A], T], order: A, heard: Callable[[Any], None]
    ) -> asyncio.Future[T]:  # fmt: skip
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(self._run(framed((work, order)), future, heard))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        future.add_done_callback(lambda done: task.cancel() if done.cancelled() else None)
        return future

    async def _run(self, order: bytes, future: asyncio.Future[Any], heard: Callable[[Any], None]) -> None:
        worker = None
        try:
            worker = self._take() or await _start()
            kind, content = await _work(worker.process, order, heard)
            if kind is Said.LAST_RESULT:
                worker.end()
            else:
                self._put(worker)
        except BaseException as error:  # cancelled, or the process has ended
            if worker is not None:
                worker.end()
            if not future.done():
                future.set_exception(error if isinstance(error, Exception) else WorkerDied("the node stops"))
            if isinstance(error, asyncio.CancelledError):
                raise
            return
        if not future.done():
            if kind is Said.ERROR:
                future.set_exception(content)
            else:
                future.set_result(content)

    def _take(self) -> _Worker | None:
        while self._idle:
            worker = self._idle.pop()
            if worker.timer is not None:
                worker.timer.cancel()
            if worker.process.returncode is None:
                return worker
        return None

    def _put(self, worker: _Worker) -> None:
        if self._closed:
            worker.end()
            return
        worker.timer = asyncio.get_running_loop().call_later(self._idle_s, self._let_go, worker)
        self._idle.append(worker)

    def _let_go(self, worker: _Worker) -> None:
        if worker in self._idle:
            self._idle.remove(worker)
            worker.end()

    def close(self) -> None:
        self._closed = True
        for task in self._tasks:
            task.cancel()
        for worker in self._idle:
            worker.end()
        self._idle.clear()


async def _start() -> _Worker:
    pipe = asyncio.subprocess.PIPE
    return _Worker(
        await asyncio.create_subprocess_exec(sys.executable, "-c", _MAIN, stdin=pipe, stdout=pipe, env=_environment())
    )


def _environment() -> dict[str, str]:
    """Where this process finds its modules, that one shall too."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


async def _work(
    process: asyncio.subprocess.Process, order: bytes, heard: Callable[[Any], None]
) -> tuple[Said, Any]:  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(order)
        await process.stdin.drain()
        while True:
            (size,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
            answer = pickle.loads(await process.stdout.readexactly(size))  # noqa: S301  (from a process of ours)
            kind, content = answer
            if kind is not Said.NEWS:
                return kind, content
            heard(content)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        code = await process.wait()
        raise WorkerDied(f"the process {process.pid} ended with {code} in the middle of its work") from error
