"""A voter at work: carries out on the event loop what quorum.py decides.

What is appended passes three stages, each with its event: appended (`append` returns), flushed, committed
(`on_committed`). Appends that arrive while an fsync is under way share the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from ottla.env.ports import Buffer, Env
from ottla.env.tasks import Tasks
from ottla.raft import quorum_state
from ottla.raft.control_records import leader_change_batch
from ottla.raft.log import RaftLog
from ottla.raft.quorum import BecomeLeader, Committed, Effect, Persist, Quorum, Role

_log = logging.getLogger("ottla.raft")


class NotLeaderError(Exception):
    """This node does not lead the quorum (any more): nothing was appended."""


class RaftNode:
    """`folder` is that of the log: Kafka keeps quorum-state beside the segments of `__cluster_metadata-0`."""

    def __init__(self, env: Env, folder: str, log: RaftLog, node_id: int, voters: tuple[int, ...]) -> None:
        self.log = log
        self.failure: BaseException | None = None
        self.on_flushed: list[Callable[[int], None]] = []
        self.on_committed: list[Callable[[int], None]] = []
        self.on_failed: list[Callable[[BaseException], None]] = []
        self._env = env
        self._folder = folder
        self._quorum = Quorum(node_id, voters, quorum_state.load(env.disk, folder), log.end_offset, log.last_epoch)
        self._flushed = 0
        self._is_flushing = False
        self._tasks = Tasks(self._fail)

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def leader_id(self) -> int:
        return self._quorum.leader_id

    @property
    def is_leader(self) -> bool:
        return self._quorum.role is Role.LEADER

    @property
    def high_watermark(self) -> int:
        """Everything below is committed; -1 as long as this is not known."""
        return self._quorum.high_watermark

    async def start(self) -> None:
        """Becomes leader. When this returns, all that the log held and the LeaderChange record are committed."""
        leads_from = self.log.end_offset
        self._carry_out(self._quorum.start())
        await self.committed(leads_from)

    def append(self, batch: Buffer) -> int:
        """Puts one batch at the end of the log, gives its base offset and starts to make it durable.

        OSError if it could not be appended: this node then no longer leads.
        """
        if not self.is_leader:
            raise NotLeaderError(f"node {self._quorum.node_id} is {self._quorum.role.value} in epoch {self.epoch}")
        try:
            base_offset = self.log.append(batch, self.epoch)
        except OSError as error:
            self._fail(error)  # a log that failed once takes nothing more: better to say so than to lead in vain
            raise
        self._quorum.appended(self.log.end_offset)
        if not self._is_flushing:
            self._is_flushing = True
            self._tasks.start(self._flush_until_level(), "raft-flush")
        return base_offset

    async def committed(self, offset: int) -> None:
        """Returns when the record at this offset is committed; raises what keeps it from ever being that."""
        if self.high_watermark > offset:
            return
        if self.failure is not None:
            raise NotLeaderError(f"offset {offset} was not committed: {self.failure}") from self.failure
        done: asyncio.Future[None] = self._env.loop.create_future()

        def reached(high_watermark: int) -> None:
            if high_watermark > offset and not done.done():
                done.set_result(None)

        def failed(error: BaseException) -> None:
            if not done.done():
                done.set_exception(NotLeaderError(f"offset {offset} was not committed: {error}"))

        self.on_committed.append(reached)
        self.on_failed.append(failed)
        try:
            await done
        finally:
            self.on_committed.remove(reached)
            self.on_failed.remove(failed)

    async def stop(self) -> None:
        """Makes durable what was appended, then appends nothing more."""
        if self.is_leader and self.failure is None and self.log.end_offset > self._flushed:
            await self.committed(self.log.end_offset - 1)
        self._quorum.resign()
        await self._tasks.stop()

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        waiting = deque(effects)
        while waiting:
            match waiting.popleft():
                case Persist(state):
                    quorum_state.store(self._env.disk, self._folder, state)
                    waiting.extend(self._quorum.persisted(state))
                case BecomeLeader(epoch, voters, granting):
                    _log.info("Node %d leads the metadata quorum in epoch %d", self._quorum.node_id, epoch)
                    now_ms = self._env.clock.now_ms()
                    self.append(leader_change_batch(self._quorum.node_id, voters, granting, now_ms))
                case Committed(high_watermark):
                    for listener in list(self.on_committed):
                        listener(high_watermark)

    async def _flush_until_level(self) -> None:
        try:
            while self._flushed < self.log.end_offset and self.is_leader:
                self._flushed = await self.log.flush()
                for listener in list(self.on_flushed):
                    listener(self._flushed)
                self._carry_out(self._quorum.flushed(self._quorum.node_id, self._flushed))
        finally:
            self._is_flushing = False

    def _fail(self, error: BaseException) -> None:
        """After a failed fsync nobody knows what the disk has (the kernel may have dropped the pages): never go on."""
        self.failure = error
        self._quorum.resign()
        _log.error("The metadata log cannot be written, this node no longer leads: %s", error, exc_info=error)
        for listener in list(self.on_failed):
            listener(error)
