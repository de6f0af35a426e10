"""One partition of an internal topic, and the coordinator whose state it is.

    loading   the log is replayed; requests are refused with COORDINATOR_LOAD_IN_PROGRESS
    active    an operation decides; its records are applied at once and wait in a batch with those of other operations
              of this turn of the loop (or as `Haste` says); the batch is appended; once it is committed the replies go
              out
    closed    leadership is elsewhere

An append that fails takes back all that was decided since: later decisions were built on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, Final, Generic, TypeVar

from ottla.coordinator.loading import replay_log
from ottla.coordinator.machine import Machine, Outcome, StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.env.ports import Env
from ottla.env.slices import whole
from ottla.env.timers import Timer, TimerWheel
from ottla.log.end_markers import marker_batch
from ottla.log.producers import Origin
from ottla.model.errors import ErrorCode, KafkaError
from ottla.record.builder import build_plain_batch
from ottla.replica.partition import Appended, Partition

R = TypeVar("R")
M = TypeVar("M", bound=Machine)
_log = logging.getLogger("ottla.coordinator")

_ALL: Final = -1
_RECORD_OVERHEAD: Final = 40
_AGAIN_MS: Final = 500
_LATE_S: Final = 0.2
_LISTEN_S: Final = 0.5  # to what came while this node stood still, before conclusions are drawn from silence
_MOMENT_MS: Final = 5


class State(Enum):
    LOADING = auto()
    ACTIVE = auto()
    CLOSED = auto()


class Haste(Enum):
    """When what was decided is appended. Records that wait are appended with the first that does not."""

    NOW = "few ask here at a time: to wait for others' records would only cost time"
    WHEN_CALM = "at once if nobody else is at it, else with this turn"
    THIS_TURN = "with those of other operations of this turn of the loop"
    NEXT = "nobody waits for it: with the next records, or in a moment if none come"


Tell = Callable[[Any, KafkaError | None], None]
"""Takes the reply, or why there is none."""


class _Reply:
    __slots__ = ("after", "due", "outcome", "tell")

    def __init__(self, after: int, outcome: Outcome[Any], tell: Tell, due: float) -> None:
        self.after = after  # the offset that must be committed before
        self.outcome = outcome
        self.tell: Tell | None = tell  # None once it has been told that it takes too long
        self.due = due  # by the loop's clock


@dataclass(slots=True)
class _Alarm:
    timer: Timer
    rings: float  # by the loop's clock; the operation may be due later
    due: float
    operation: Callable[[], Outcome[Any]]
    was_put_off: bool = False  # since it rang late


class Shard(Generic[M]):
    def __init__(
        self,
        env: Env,
        timers: TimerWheel,
        partition: Partition,
        make: Callable[[Shard[M]], M],
        reply_within_ms: int,
    ) -> None:
        self.timeline = Timeline()
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.state = State.LOADING
        self.machine = make(self)
        self._env = env
        self._timers = timers
        self._end = 0  # where the next record will be
        self._batch: list[StoredRecord] = []
        self._batch_bytes = 0
        self._batch_base = 0
        self._append_is_due = False
        self._moment: Timer | None = None  # until what nobody waits for is appended
        self._appended_at = -1.0  # by the loop's clock, which stands still during a turn
        self._committed = 0
        self._waiting: deque[_Reply] = deque()
        self._reply_within_ms = reply_within_ms
        self._told: list[tuple[Tell, Any, KafkaError | None]] = []  # who is to be told, when nothing is under way here
        self._telling_is_due = False
        self._deadline: Timer | None = None
        self._alarms: dict[object, _Alarm] = {}
        self._loop = env.loop  # asked for once: that is a system call in some versions of Python

    # -- its life

    async def load(self) -> None:
        """Replays the log. The caller closes the shard if this raises."""
        log = self.partition.log
        self.timeline.is_kept = False
        self._end = await replay_log(self._env, log, self.machine, self.timeline, lambda: self._is_loading)
        self.timeline.is_kept = True
        if self.state is State.LOADING:
            self.state = State.ACTIVE
            self.machine.started()

    @property
    def _is_loading(self) -> bool:
        return self.state is State.LOADING

    def close(self) -> None:
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        for alarm in self._alarms.values():
            alarm.timer.cancel()
        self._alarms.clear()
        for timer in (self._deadline, self._moment):
            if timer is not None:
                timer.cancel()
        self._fail(self._batch_base, _moved(), everything=True)
        self.machine.stopped()

    def check(self) -> None:
        """Raises what a client is told while nobody can answer here."""
        if self.state is State.LOADING:
            raise KafkaError(ErrorCode.coordinator_load_in_progress, "the coordinator is loading its state")
        if self.state is State.CLOSED or not self.partition.is_leader:
            raise KafkaError(ErrorCode.not_coordinator, "the coordinator is elsewhere")

    # -- operations

    def write(self, operation: Callable[[M], Outcome[R]], haste: Haste = Haste.THIS_TURN) -> asyncio.Future[R]:
        """Decides now; the reply comes when all that the decision rests on is committed."""
        done: asyncio.Future[R] = self._loop.create_future()
        self.submit(operation, partial(_settle, done), haste)
        return done

    def submit(self, operation: Callable[[M], Outcome[R]], tell: Tell, haste: Haste = Haste.THIS_TURN) -> None:
        """The same with a callback, which may be called at once; never while a decision is being made here."""
        self.check()
        self._accept(whole(operation, self.machine), tell, haste)

    def write_in_transaction(
        self, operation: Callable[[M], Outcome[R]], producer_id: int, producer_epoch: int
    ) -> asyncio.Future[R]:
        """The records are a producer's: they count when its transaction is committed. Others' never share their batch.

        The partition must have been told that the transaction's coordinator knows of it.
        """
        self.check()
        outcome = whole(operation, self.machine)
        done: asyncio.Future[R] = self._loop.create_future()
        tell = partial(_settle, done)
        if not outcome.records:
            self._await_commit(outcome, tell)
            return done
        error = self._append() or self._apply(outcome, 0, producer_id, producer_epoch)
        if error is not None:
            _undo(outcome, error)
            tell(None, error)
            return done
        records, self._batch, self._batch_bytes = self._batch, [], 0
        self._await_commit(outcome, tell)
        self._append_batch(build_plain_batch(records, self._env.clock.now_ms(), producer_id, producer_epoch))
        return done

    def end_transaction(
        self, producer_id: int, producer_epoch: int, is_commit: bool, coordinator_epoch: int, version: int
    ) -> asyncio.Future[None]:
        """Appends the marker: what the transaction wrote counts from here on, or is forgotten."""
        self.check()
        done: asyncio.Future[None] = self._loop.create_future()
        refused = self.partition.log.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, version)
        error = self._append() if refused is None else KafkaError(refused.code, refused.message)
        if error is not None:
            _settle(done, None, error)
            return done
        self._batch_base = self.timeline.offset = self._end
        self.machine.end_transaction(producer_id, producer_epoch, is_commit=is_commit)
        self._end += 1
        self._await_commit(Outcome(None), partial(_settle, done))
        now_ms = self._env.clock.now_ms()
        self._append_batch(marker_batch(producer_id, producer_epoch, is_commit, coordinator_epoch, now_ms))
        return done

    def read(self, operation: Callable[[M], R]) -> R:
        """For answers from what is committed: the operation uses the tables' `committed_` methods."""
        self.check()
        return operation(self.machine)

    def _accept(self, outcome: Outcome[Any], tell: Tell, haste: Haste = Haste.THIS_TURN) -> None:
        if outcome.records:
            if haste is Haste.WHEN_CALM and self._is_calm():
                haste = Haste.NOW
            if haste is Haste.NOW and not self._batch and not self._waiting:
                self._append_at_once(outcome, tell)
                return
            size = _size(outcome.records)
            error = self._make_room(size) or self._apply(outcome, size)
            if error is not None:
                _undo(outcome, error)
                tell(None, error)
                return
            if haste is Haste.NEXT:
                if self._moment is None:
                    self._moment = self._timers.after(_MOMENT_MS, self._append_after_a_moment)
            elif haste is not Haste.NOW and not self._append_is_due:
                self._append_is_due = True
                self._loop.call_soon(self._append_what_waits)
        self._await_commit(outcome, tell)
        if haste is Haste.NOW and outcome.records:
            self._append_what_waits()
        elif self._batch_bytes > self.partition.log.config.max_message_bytes:
            self._append()  # it may be too large even alone: to be known before anything is decided on it

    def _is_calm(self) -> bool:
        """Whether there is nobody to share a batch with: nothing was appended in this turn or waits for its end, and
        all before is committed. What waits for the next records (`Haste.NEXT`) goes with these."""
        if self._append_is_due or self._loop.time() == self._appended_at:
            return False
        return not self._waiting or (bool(self._batch) and self._waiting[0].after > self._batch_base)

    def _append_at_once(self, outcome: Outcome[Any], tell: Tell) -> None:
        """Applied when it is in the log, and so mostly committed: then there is nothing to keep for undoing it."""
        self._batch_base = base = self._end
        error = self._append_batch(build_plain_batch(outcome.records, self._env.clock.now_ms()))
        if error is not None:
            _undo(outcome, error)
            tell(None, error)
            return
        self._end = base + len(outcome.records)
        self.timeline.is_kept = self._end > self.partition.high_watermark
        try:
            self._take_over(outcome, base)
        finally:
            self.timeline.is_kept = True
        self._await_commit(outcome, tell)

    def _await_commit(self, outcome: Outcome[Any], tell: Tell) -> None:
        if self._end <= self.partition.high_watermark and not self._waiting:
            if outcome.committed is not None:
                outcome.committed()
            tell(outcome.reply, None)
        else:
            due = self._loop.time() + self._reply_within_ms / 1000
            self._waiting.append(_Reply(self._end, outcome, tell, due))
            if self._deadline is None:  # one for all that wait, set anew when it is reached
                self._deadline = self._timers.after(self._reply_within_ms, self._give_up)

    def _apply(
        self, outcome: Outcome[Any], size: int, producer_id: int = -1, producer_epoch: int = -1
    ) -> KafkaError | None:
        """To the state and to the batch, all of them or none."""
        first = self._end
        try:
            self._take_over(outcome, first, producer_id, producer_epoch)
        except Exception:
            _log.exception("%s: what was decided cannot be applied", self.partition.key)
            self.timeline.undo(first)
            return KafkaError(ErrorCode.unknown_server_error, "what was decided cannot be applied")
        if not self._batch:
            self._batch_base = first
        self._batch += outcome.records
        self._end = first + len(outcome.records)
        self._batch_bytes += size
        return None

    def _take_over(self, outcome: Outcome[Any], first: int, producer_id: int = -1, producer_epoch: int = -1) -> None:
        """Into the state, as if its records had been read from this offset on."""
        if outcome.take_over is not None:
            self.timeline.offset = first
            outcome.take_over()
            return
        for offset, record in enumerate(outcome.records, first):
            self.timeline.offset = offset
            self.machine.replay(record, producer_id, producer_epoch)

    def _give_up(self) -> None:
        """Whoever has waited too long is told so. What was decided may still come to be, and be undone if not."""
        self._deadline = None
        now = self._loop.time()
        for reply in self._waiting:
            if reply.due > now:
                self._deadline = self._timers.after((reply.due - now) * 1000, self._give_up)
                break
            if reply.tell is not None:
                late = KafkaError(ErrorCode.coordinator_not_available, "not committed in time")
                self._told.append((reply.tell, None, late))
                reply.tell = None
        self._tell_all()

    def _make_room(self, size: int) -> KafkaError | None:
        """A batch has to fit into the topic's `max.message.bytes`; one outcome's records are never divided.

        An error if what waited could not be appended: the outcome was decided on what has not happened.
        """
        if self._batch and self._batch_bytes + size > self.partition.log.config.max_message_bytes:
            return self._append()
        return None

    def _append_after_a_moment(self) -> None:
        self._moment = None
        self._append_what_waits()
        self._appended_at = -1.0  # nobody asked for it: whoever asks in this turn need not wait for others

    def _append_what_waits(self) -> None:
        self._telling_is_due = True  # here, and not another time
        self._append()
        self._tell_all()

    def _append(self) -> KafkaError | None:
        self._append_is_due = False
        if not self._batch or self.state is not State.ACTIVE:
            return None
        records, self._batch = self._batch, []
        self._batch_bytes = 0
        return self._append_batch(build_plain_batch(records, self._env.clock.now_ms()))

    def _append_batch(self, batch: bytes) -> KafkaError | None:
        self._appended_at = self._loop.time()
        if len(batch) > self.partition.log.config.max_message_bytes:
            return self._fail(self._batch_base, KafkaError(ErrorCode.unknown_server_error, "too much for one batch"))
        appended = self.partition.append(batch, _ALL, Origin.COORDINATOR, self.epoch)
        assert isinstance(appended, Appended)
        if appended.code is not ErrorCode.none:
            code = _ERRORS.get(appended.code, appended.code)
            return self._fail(self._batch_base, KafkaError(code, appended.message or ""))
        if appended.base_offset != self._batch_base:
            _log.error("%s: appended at %d instead of %d", self.partition.key, appended.base_offset, self._batch_base)
            self.close()
            return _moved()
        self.committed(self.partition.high_watermark)
        return None

    def committed(self, offset: int) -> None:
        """The high watermark has moved."""
        if self.state is not State.ACTIVE or offset == self._committed:
            return
        self._committed = offset
        self.timeline.commit(offset)
        waiting = self._waiting
        while waiting and waiting[0].after <= offset:
            reply = waiting.popleft()
            outcome = reply.outcome
            if outcome.committed is not None:
                outcome.committed()
            if reply.tell is not None:
                self._told.append((reply.tell, outcome.reply, None))
        self._tell_soon()

    def _fail(self, base: int, error: KafkaError, *, everything: bool = False) -> KafkaError:
        """What was decided from an offset on has not happened; when the shard closes, nothing that is not committed."""
        self._batch.clear()
        self._batch_bytes = 0
        failed: list[_Reply] = []
        while self._waiting and (everything or self._waiting[-1].after > base):
            failed.append(self._waiting.pop())
        self.timeline.undo(base)
        self._end = base
        for reply in failed:  # the newest first, as they were built on each other
            _undo(reply.outcome, error)
            if reply.tell is not None:
                self._told.append((reply.tell, None, error))
        self._tell_soon()
        return error

    def _tell_soon(self) -> None:
        """Who is told may ask the next question at once, and a decision may be under way here."""
        if self._told and not self._telling_is_due:
            self._telling_is_due = True
            self._loop.call_soon(self._tell_all)

    def _tell_all(self) -> None:
        self._telling_is_due = False
        told, self._told = self._told, []
        for tell, reply, error in told:
            try:
                tell(reply, error)
            except Exception:
                _log.exception("%s: a reply could not be told", self.partition.key)

    # -- alarms

    def set(self, name: object, delay_ms: float, operation: Callable[[], Outcome[Any]]) -> None:
        """Sessions are put off with each sign of life, and few ever end: the timer stays, and looks when it rings."""
        due = self._loop.time() + delay_ms / 1000
        alarm = self._alarms.get(name)
        if alarm is not None and alarm.rings <= due:
            alarm.due, alarm.operation, alarm.was_put_off = due, operation, False
            return
        self.cancel(name)
        if self.state is not State.CLOSED:
            self._alarms[name] = _Alarm(self._timers.after(delay_ms, self._ring, name), due, due, operation)

    def cancel(self, name: object) -> None:
        alarm = self._alarms.pop(name, None)
        if alarm is not None:
            alarm.timer.cancel()

    def _ring(self, name: object) -> None:
        alarm = self._alarms.pop(name)
        now = self._loop.time()
        left_s = alarm.due - now
        if left_s <= 0 and now - alarm.rings > _LATE_S and not alarm.was_put_off:
            left_s, alarm.was_put_off = _LISTEN_S, True
            alarm.due = now + left_s
        if left_s > 0:
            alarm.timer = self._timers.after(left_s * 1000, self._ring, name)
            alarm.rings = alarm.due
            self._alarms[name] = alarm
        elif self.state is State.ACTIVE:
            try:
                outcome = alarm.operation()
            except Exception:  # a member that cannot be removed now must not stay for ever
                _log.exception("%s: an alarm failed, and rings again", self.partition.key)
                if name not in self._alarms:
                    self.set(name, _AGAIN_MS, alarm.operation)
                return
            self._accept(outcome, _nobody)


_ERRORS: Final = {
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.fenced_leader_epoch: ErrorCode.not_coordinator,
    ErrorCode.unknown_leader_epoch: ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
}
"""What a failed append means to a client of the coordinator."""


def _nobody(reply: Any, error: KafkaError | None) -> None:
    """Is told what an alarm did."""


def _undo(outcome: Outcome[Any], error: KafkaError) -> None:
    if outcome.undone is not None:
        outcome.undone(error)


def _moved() -> KafkaError:
    return KafkaError(ErrorCode.not_coordinator, "the coordinator has moved")


def _settle(done: asyncio.Future[Any], reply: Any, error: KafkaError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(reply)
    else:
        done.set_exception(error)
        done.exception()  # whoever asked may have gone


def _size(records: Sequence[StoredRecord]) -> int:
    size = _RECORD_OVERHEAD * len(records)
    for key, value in records:
        size += len(key) + len(value) if value is not None else len(key)
    return size
