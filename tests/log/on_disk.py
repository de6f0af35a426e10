"""A log dir on the real disk, for folders that go from Apache Kafka to us and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from ottla.env.clock import SystemClock
from ottla.env.disk import PosixDisk
from ottla.env.executor import PoolExecutor
from ottla.env.network import TcpNetwork
from ottla.env.ports import Clock, Env
from ottla.env.randomness import SeededRandom
from ottla.env.timers import TimerWheel
from ottla.log.log_dir import LogDir
from ottla.log.manager import LogManager, TendingIntervals
from ottla.model.config.topic import LogConfig
from ottla.model.names import TopicPartition

T = TypeVar("T")


class FixedClock:
    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def elapsed(self) -> float:
        return self._now_ms / 1000


def with_logs(
    folder: Path,
    known: dict[TopicPartition, tuple[UUID, LogConfig]],
    story: Callable[[LogManager, Env], Coroutine[Any, Any, T]],
    *,
    clock: Clock | None = None,
    stop: bool = True,
) -> T:
    """Opens the log dir, tells the story, and stops cleanly; or not, as after kill -9."""

    async def run() -> T:
        env = Env(
            clock=clock or SystemClock(),
            disk=PosixDisk(),
            network=TcpNetwork(),
            executor=PoolExecutor(),
            random=SeededRandom(Random(1)),
        )
        intervals = TendingIntervals(300_000, 60_000, 60_000, 5_000, 600_000, 86_400_000)
        timers = TimerWheel(asyncio.get_running_loop())
        log_dir = LogDir(env, str(folder))
        manager = LogManager(env, timers, [log_dir], intervals, lambda partition: log_dir.logs[partition].end_offset)
        manager.load(lambda partition, topic_id, directory: known.get(partition))
        result = await story(manager, env)
        timers.close()
        if stop:
            await manager.stop(broker_epoch=1)
        else:
            await log_dir.settle()
            log_dir._unlock()
        env.executor.close()
        return result

    return asyncio.run(run())
