"""Moves of partitions between log dirs (AlterReplicaLogDirs): which are under way, and what they change when done."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.dynamic_config import DynamicConfig
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.log.moving import LogMove
from ottla.model.errors import KafkaError
from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.directories import Directories
    from ottla.broker.replicas import Replicas
    from ottla.log.log_dir import LogDir
    from ottla.log.manager import LogManager

_log = logging.getLogger("ottla.broker")
_AHEAD_S: Final = 0.01
_LOOK_AGAIN_S: Final = 1.0


class _UnderWay(NamedTuple):
    move: LogMove
    task: asyncio.Task[None]


class Moves:
    def __init__(
        self, env: Env, config: DynamicConfig, logs: LogManager, replicas: Replicas, directories: Directories
    ) -> None:
        self._env = env
        self._config = config
        self._next_at = 0.0  # when the rate would have copied what was copied
        self._logs = logs
        self._replicas = replicas
        self._directories = directories
        self._under_way: dict[TopicPartition, _UnderWay] = {}
        self._tasks = Tasks(lambda error: _log.error("a partition could not be moved: %s", error))

    def under_way(self) -> list[LogMove]:
        return [entry.move for entry in self._under_way.values()]

    def start(self, partition: TopicPartition, target: LogDir) -> None:
        """Nothing if it is there already or on its way; a move to elsewhere is given up."""
        current = self._under_way.get(partition)
        if current is not None and current.move.target is target:
            return
        self.cancel(partition)
        source = self._logs.dir_of(partition)
        if source is None or source is target:
            return
        move = LogMove(self._env, source.logs[partition], source, target, self._pace)
        self._under_way[partition] = _UnderWay(move, self._tasks.start(self._run(move), f"move {partition}"))

    def cancel(self, partition: TopicPartition) -> None:
        entry = self._under_way.pop(partition, None)
        if entry is not None:
            entry.task.cancel()

    def cancel_those_of(self, log_dir: LogDir) -> None:
        """A log dir has failed."""
        for partition, entry in list(self._under_way.items()):
            if log_dir in (entry.move.source, entry.move.target):
                self.cancel(partition)

    def resume(self) -> None:
        """Those that the last stop or crash has cut off begin anew; what was copied then is of no use."""
        for log_dir in list(self._logs.dirs):
            for partition, folder in log_dir.unfinished:
                self._env.executor.blocking(self._env.disk.remove_tree, folder)
                if self._replicas.by_name.get(partition) is not None:
                    _log.info("%s is moved to %s, again from the beginning", partition, log_dir.path)
                    self.start(partition, log_dir)
            log_dir.unfinished.clear()

    async def _pace(self, count: int) -> None:
        """All moves together stay below `replica.alter.log.dirs.io.max.bytes.per.second`, as it is now."""
        loop = self._env.loop
        rate = self._rate()
        self._next_at = max(self._next_at, loop.time()) + count / max(rate, 1)
        while (ahead := self._next_at - loop.time()) > _AHEAD_S:
            await asyncio.sleep(min(ahead, _LOOK_AGAIN_S))
            if self._rate() != rate:  # what was counted at the old one is forgotten
                self._next_at = loop.time()

    def _rate(self) -> int:
        return self._config.current.get_int("replica.alter.log.dirs.io.max.bytes.per.second")

    async def _run(self, move: LogMove) -> None:
        log = move.log
        partition = self._replicas.by_name.get(log.partition)
        is_told = False

        async def tell() -> bool:
            nonlocal is_told
            is_told = True
            return await self._directories.assign_surely(log.topic_id, log.partition.partition, move.target.id)

        try:
            async with self._logs.uncleaned(log):
                moved = await move.run(tell)
            if moved is None or partition is None or partition.log is not log:
                raise OSError("the partition is no longer there, or the controller does not agree")
            partition.use_log(moved.log)
            is_told = False
            if moved.old_folder is not None:
                self._logs.remove_folder(moved.old_folder, log.config.file_delete_delay_ms)
        except (OSError, KafkaError) as error:
            _log.error("%s could not be moved to %s: %s", log.partition, move.target.path, error)
        finally:
            entry = self._under_way.get(log.partition)
            if entry is not None and entry.move is move:
                del self._under_way[log.partition]
            if is_told:  # it stays where it was, after all
                self._directories.assign(log.topic_id, log.partition.partition, move.source.id)
            if not self._is_stopping:
                self._env.executor.blocking(move.abandon)

    _is_stopping = False

    async def stop(self) -> None:
        """What is not finished goes on after the next start."""
        self._is_stopping = True
        await self._tasks.stop()
