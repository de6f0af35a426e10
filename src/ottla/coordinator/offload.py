"""Work of a coordinator that is too much for the loop: it goes to another process, and comes back as an operation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ottla.coordinator.machine import Outcome
from ottla.coordinator.shard import Shard
from ottla.env.ports import Env
from ottla.model.errors import KafkaError

T = TypeVar("T")


class Offload:
    """Of one shard. Results that come when it is closed are dropped: its successor begins anew."""

    def __init__(self, env: Env, shard: Shard[Any]) -> None:
        self._env = env
        self._shard = shard
        self._running: dict[object, asyncio.Future[Any]] = {}

    def is_running(self, name: object) -> bool:
        return name in self._running

    def start(
        self,
        name: object,
        function: Callable[..., T],
        args: tuple[Any, ...],
        done: Callable[[T], Outcome[Any]],
        failed: Callable[[BaseException], Outcome[Any]],
    ) -> None:
        def finish(future: asyncio.Future[T]) -> None:
            self._running.pop(name, None)
            if future.cancelled():
                return
            error = future.exception()
            with suppress(KafkaError):
                self._shard.write(lambda _: done(future.result()) if error is None else failed(error))

        future = self._env.executor.compute(function, *args)
        self._running[name] = future
        future.add_done_callback(finish)
