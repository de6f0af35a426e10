"""A replica of the quorum at work: carries out on the event loop what quorum.py decides.

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
from ottla.raft.control_records import control_batch
from ottla.raft.effects import AppendControl, Committed, Effect, LeaderChanged, Persist
from ottla.raft.log import RaftLog
from ottla.raft.log_view import ControlHistory, EpochStart, LogView
from ottla.raft.quorum import Quorum
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet

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
        self._node_id = node_id
        if voters != (node_id,):
            raise ValueError(f"node {node_id} must be the only voter, but the voters are {voters}")
        epochs = [EpochStart(log.last_epoch, 0)] if log.end_offset else []
        view = LogView(ControlHistory(VoterSet.static(voters)), end_offset=log.end_offset, epochs=epochs)
        stored = quorum_state.load(env.disk, folder)
        self._quorum = Quorum(VoterNode(ReplicaKey(node_id)), "", view, stored, below=env.random.below)
        self._flushed = 0
        self._is_flushing = False
        self._tasks = Tasks(self._fail)
        self._news: deque[Committed | LeaderChanged] = deque()
        self._is_telling = False

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def leader_id(self) -> int:
        return self._quorum.leader_id

    @property
    def is_leader(self) -> bool:
        return self._quorum.is_leader

    @property
    def high_watermark(self) -> int:
        """Everything below is committed; -1 as long as this is not known."""
        return self._quorum.high_watermark

    async def start(self) -> None:
        """Becomes leader. When this returns, all that the log held and the LeaderChange record are committed."""
        leads_from = self.log.end_offset
        self._carry_out(self._quorum.start(self._now()))
        await self.committed(leads_from)

    def append(self, batch: Buffer) -> int:
        """Puts one batch at the end of the log, gives its base offset and starts to make it durable.

        OSError if it could not be appended: this node then no longer leads.
        """
        if not self.is_leader:
            raise NotLeaderError(f"node {self._node_id} is {self._quorum.role.value} in epoch {self.epoch}")
        base_offset = self._append(batch)
        self._carry_out(self._quorum.appended(self._now(), self.log.end_offset))
        return base_offset

    def _append(self, batch: Buffer) -> int:
        try:
            base_offset = self.log.append(batch, self.epoch)
        except OSError as error:
            self._fail(error)  # a log that failed once takes nothing more: better to say so than to lead in vain
            raise
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
        self._quorum.fail()
        await self._tasks.stop()

    def _now(self) -> int:
        return int(self._env.clock.elapsed() * 1000)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        """Whoever is told of something may append at once, so nobody is told before all the rest is done."""
        for effect in effects:
            match effect:
                case Persist(state):
                    quorum_state.store(self._env.disk, self._folder, state)
                case AppendControl(records=records):
                    self._append(control_batch(records, self._env.clock.now_ms()))
                case Committed() | LeaderChanged():
                    self._news.append(effect)
                case _:
                    raise AssertionError(f"{effect} is not for a sole voter")
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._news:
                self._tell(self._news.popleft())
        finally:
            self._is_telling = False

    def _tell(self, news: Committed | LeaderChanged) -> None:
        match news:
            case Committed(high_watermark):
                for listener in list(self.on_committed):
                    listener(high_watermark)
            case LeaderChanged(leader_id, epoch) if leader_id == self._node_id:
                _log.info("Node %d leads the metadata quorum in epoch %d", self._node_id, epoch)

    async def _flush_until_level(self) -> None:
        try:
            while self._flushed < self.log.end_offset and self.is_leader:
                generation = self._quorum.log_generation
                self._flushed = await self.log.flush()
                for listener in list(self.on_flushed):
                    listener(self._flushed)
                self._carry_out(self._quorum.flushed(self._now(), self._flushed, generation))
        finally:
            self._is_flushing = False

    def _fail(self, error: BaseException) -> None:
        """After a failed fsync nobody knows what the disk has (the kernel may have dropped the pages): never go on."""
        self.failure = error
        self._quorum.fail()
        _log.error("The metadata log cannot be written, this node no longer leads: %s", error, exc_info=error)
        for listener in list(self.on_failed):
            listener(error)
