"""Background tasks that belong to someone."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Tasks:
    """Background tasks of one owner: kept alive, their errors told, all cancelled together."""

    on_error: Callable[[BaseException], None]
    _running: dict[asyncio.Task[Any], None] = field(default_factory=dict)

    def start(self, work: Awaitable[Any], name: str) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        task.set_name(name)
        self._running[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.on_error(error)

    async def settle(self) -> None:
        """Until those that run now are done."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def stop(self) -> None:
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
