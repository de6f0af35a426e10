"""One partition on this node: who may append and read, how far records are committed, and who is told.

Every check of leadership, epoch, in-sync replicas and offsets is in here, so that an API only has to ask. With one
replica the in-sync set is this node alone and the high watermark follows the log's end; with more, `leading` knows how
far the others are, and following.py what a follower does.

Three stages of a record, each a `Progress` that anyone can wait on:
- appended: in the log, and flushed as far as flush.messages demands. What acks=1 waits for.
- flushed: would survive a loss of power.
- committed: below the high watermark. What acks=all waits for, and what consumers see.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol
from uuid import UUID

from ottla.env.ports import Buffer, Env
from ottla.log.end_markers import note_end
from ottla.log.partition_log import PartitionLog
from ottla.log.producers import Origin, Refused, SeenBatch
from ottla.log.reading import BeforeLocalStart, OffsetOutOfRange
from ottla.log.segment import DamagedLog
from ottla.log.truncation import Before
from ottla.metadata.controller.requests import AlteredPartition
from ottla.model.config.topic import LogConfig
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, TopicPartition
from ottla.record.batch import LOG_OVERHEAD, BatchHeader, parse_header, with_log_append_time
from ottla.record.validate import Rejected, check_produced
from ottla.replica.checking import CheckedAppends, rules_of
from ottla.replica.isr import IsrChange, counts
from ottla.replica.leading import Leading
from ottla.replica.progress import Progress, Waiter
from ottla.replica.results import CONSUMER as CONSUMER
from ottla.replica.results import Appended as Appended
from ottla.replica.results import Fetched as Fetched
from ottla.replica.results import InTier as InTier
from ottla.replica.results import Isolation as Isolation
from ottla.replica.results import Leadership as Leadership
from ottla.replica.results import PartitionListener as PartitionListener
from ottla.replica.results import epoch_error
from ottla.replica.surroundings import NoSurroundings, Surroundings
from ottla.replica.tally import Tally
from ottla.replica.turned_away import TurnedAway

_log = logging.getLogger("ottla.replica")
_NONE: Final = ErrorCode.none
_OUT_OF_ORDER: Final = ErrorCode.out_of_order_sequence_number
_NOBODY: Final = NoSurroundings()


class AppendWatcher(Protocol):
    """Told in the middle of it: a follower that waits for data, or may soon."""

    def appended(self, partition: Partition) -> None: ...
    def changed(self, partition: Partition) -> None:
        """The high watermark, the log's start, the leadership or the in-sync replicas."""


class Partition:
    def __init__(
        self,
        env: Env,
        node_id: int,
        key: TopicPartition,
        topic_id: UUID,
        log: PartitionLog,
        high_watermark: int,
        surroundings: Surroundings = _NOBODY,
        tally: Tally | None = None,
    ) -> None:
        self.key = key
        self.topic_id = topic_id
        self.log = log
        self.leadership = Leadership(-1, NO_EPOCH, (), ())
        self.is_leader = False
        self.leading: Leading | None = None  # if others have a replica too
        self.leader_epoch = NO_EPOCH
        self.appended = Progress(log.committable_offset)
        self.flushed = Progress(log.flushed_offset)
        # What is not on this disk any more, but in the tier, was committed before it went there.
        self.committed = Progress(min(max(high_watermark, log.local_start_offset), log.end_offset))
        self.listeners: list[PartitionListener] = []
        self.watchers: dict[AppendWatcher, None] = {}
        self.is_being_cut = False
        # Since the start of this process, for metrics; waiting fetches count by the bytes.
        self.bytes_appended = self.messages_appended = self.appends = self.failed_appends = 0
        self.bytes_fetched = self.fetches = self.failed_fetches = 0
        self._env = env
        self._node_id = node_id
        self._around = surroundings
        self._tally = tally if tally is not None else Tally()
        self._epoch_start_offset = 0
        self._min_isr = 1
        self._rules = rules_of(log.config)
        self._needs_walk = self._rules.needs_walk
        self._codec = self._rules.codec
        self._checks = CheckedAppends(env, self._append_of_client, self._refused, self._leads_in)
        self._turned_away = TurnedAway()
        self._deletions = Progress(0)  # how far all replicas have followed the log's start
        log.on_flushed = self._on_flushed
        log.on_failed = self._give_up_waiting
        log.on_start_moved = self._start_moved
        log.producers.on_high_watermark(self.committed.value)

    # -- leadership and configuration

    def lead_or_follow(self, leadership: Leadership) -> None:
        if leadership.partition_epoch < self.leadership.partition_epoch:
            return  # the controller's answer to a change of ours told of a later state
        led_before, is_new_epoch = self.is_leader, leadership.leader_epoch != self.leader_epoch
        known = self.leadership
        is_known = led_before and not is_new_epoch
        is_known = is_known and (leadership.partition_epoch, leadership.isr) == (known.partition_epoch, known.isr)
        self.leadership = leadership
        self.leader_epoch = leadership.leader_epoch
        self.is_leader = leadership.leader == self._node_id
        self._min_isr = min(self.log.config.min_insync_replicas, max(len(leadership.replicas), 1))
        if self.is_leader:
            self._lead(leadership, is_new_epoch=is_new_epoch, led_before=led_before, is_known=is_known)
        else:
            self.leading = None
        self._tell_watchers()
        if is_new_epoch or led_before != self.is_leader:
            if led_before and not self.is_leader:
                self._give_up_waiting()
            for listener in self.listeners:
                listener.leadership_changed(self, led_before)

    def _lead(self, leadership: Leadership, *, is_new_epoch: bool, led_before: bool, is_known: bool) -> None:
        log = self.log
        if self.is_being_cut:  # for the leader of before, and as far as that had come
            self._around.make_cut_durable_now(log)
            self._was_cut()  # a high watermark beyond the end would acknowledge what nobody else has
        if len(leadership.replicas) == 1:
            self.leading = None
        else:
            if self.leading is None:
                self.leading = Leading(self._node_id, self._around)
            self.leading.assign(leadership, is_known=is_known)
        if is_new_epoch:
            self._epoch_start_offset = log.end_offset
            log.assign_epoch(self.leader_epoch, log.end_offset)
            if self.leading is not None:
                now = self._env.clock.elapsed()
                self.leading.begin_epoch(now, log.end_offset, is_new_leader=not led_before)
        self._advance()

    def resign(self) -> None:
        """This node has no part in it any more."""
        self.lead_or_follow(Leadership(-1, self.leader_epoch, (), (), self.leadership.partition_epoch))

    def _leads_in(self, leader_epoch: int) -> bool:
        return self.is_leader and leader_epoch == self.leader_epoch

    def configure(self, config: LogConfig) -> None:
        self.log.configure(config)
        self._rules = rules_of(config)
        self._needs_walk = self._rules.needs_walk
        self._codec = self._rules.codec
        self._min_isr = min(config.min_insync_replicas, max(len(self.leadership.replicas), 1))

    def use_log(self, log: PartitionLog) -> None:
        """The log goes on in another folder, from the same offset."""
        self.log = log
        self._advance()

    def delete_records(self, offset: int) -> ErrorCode | int:
        """Moves the start of the log, to the high watermark for -1; gives what is then to be deleted by all."""
        log = self.log
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if log.failed is not None:
            return ErrorCode.kafka_storage_error
        if log.config.compact and not log.config.delete:
            return ErrorCode.policy_violation
        wanted = self.committed.value if offset == NO_OFFSET else offset
        if not 0 <= wanted <= self.committed.value:
            return ErrorCode.offset_out_of_range
        return self.advance_start(wanted) or wanted

    def advance_start(self, offset: int) -> ErrorCode | None:
        """Of a log that is led here; followers hear of it. An error if its disk has failed."""
        try:
            self.log.advance_start(offset)
        except OSError as error:
            self.log.fail(error)
            return ErrorCode.kafka_storage_error
        self._tell_watchers()
        return None

    def _start_moved(self) -> None:
        """By retention, or because somebody has deleted records: followers hear of it, or the leader does."""
        self._tell_watchers()
        if not self.is_leader:
            self._around.log_start_moved(self)

    @property
    def low_watermark(self) -> int:
        """Up to where records are gone, on all replicas that live."""
        start_offset = self.log.start_offset
        return start_offset if self.leading is None else self.leading.low_watermark(start_offset)

    def when_deleted(self, offset: int, callback: Callable[[], None]) -> Waiter:
        """Once all replicas that live have deleted what lies below an offset, or this leadership is over."""
        low_watermark = self.low_watermark
        self._deletions.advance(low_watermark)
        # One that was away comes back with what it had; and after an election nothing is known of anybody.
        self._deletions.value = low_watermark
        return self._deletions.when(offset, callback)

    # -- appending

    def append(
        self,
        records: Buffer,
        acks: int,
        origin: Origin = Origin.CLIENT,
        expected_leader_epoch: int = NO_EPOCH,
        version: int = 13,
    ) -> Appended | asyncio.Future[Appended]:
        """Appends one batch. A future only where the batch, or one before it, is being checked in another process."""
        if not self.is_leader:
            return self._turn_away(records, Appended(ErrorCode.not_leader_or_follower))
        if expected_leader_epoch >= 0 and expected_leader_epoch != self.leader_epoch:
            return Appended(epoch_error(expected_leader_epoch, self.leader_epoch))
        if acks == -1 and len(self.leadership.isr) < self._min_isr:
            message = (
                f"The size of the current ISR {len(self.leadership.isr)} is insufficient to satisfy the min.isr "
                f"requirement of {self._min_isr} for partition {self.key}"
            )
            too_few = Appended(ErrorCode.not_enough_replicas, start_offset=self.log.start_offset, message=message)
            return self._turn_away(records, too_few)
        now_ms = self._env.clock.now_ms()
        rules = self._rules
        if origin is Origin.CLIENT:
            header = check_produced(records, rules, now_ms, version)
            if isinstance(header, Rejected):
                return self._refused(header)
            if self._needs_walk or self._checks.waiting or (self._codec >= 0 and self._codec != header.codec):
                return self._checks.check(records, header, rules, self.leader_epoch, now_ms)
        else:
            header = parse_header(records)
        return self._append_checked(records, header, origin, now_ms)

    def _append_checked(self, records: Buffer, header: BatchHeader, origin: Origin, now_ms: int) -> Appended:
        log = self.log
        if header.producer_id >= 0 and origin is Origin.CLIENT:
            seen = log.producers.check(header)
            if self._turned_away.producers and (after := self._after_one_turned_away(header, seen)) is not None:
                return self._turn_away(records, after)
            if seen is not None:
                if isinstance(seen, SeenBatch):
                    if log.failed is not None:  # it is in the log, but nobody will ever know that it is durable
                        return Appended(ErrorCode.kafka_storage_error, message=f"{log.folder}: {log.failed}")
                    return Appended(_NONE, seen.base_offset, seen.last_offset + 1, seen.timestamp, log.start_offset)
                return Appended(seen.code, message=seen.message, start_offset=log.start_offset)
        elif header.is_transactional and not header.is_control and origin is Origin.COORDINATOR:
            refused = log.producers.check_verified(header)
            if refused is not None:
                return Appended(refused.code, message=refused.message)
        append_time = NO_TIMESTAMP
        max_timestamp = header.max_timestamp
        if self._rules.log_append_time and origin is Origin.CLIENT:
            append_time = max_timestamp = now_ms
            records = with_log_append_time(records, now_ms)
        try:
            base_offset = log.append(records, header, self.leader_epoch, max_timestamp, now_ms)
        except OSError as error:
            failed = Appended(ErrorCode.kafka_storage_error, message=f"{log.folder}: {error}")
            return self._turn_away(records, failed)
        if self._turned_away.producers:
            self._turned_away.forget(header.producer_id)
        if origin is Origin.COORDINATOR and header.is_control:
            note_end(log, records, header, base_offset)
        self.bytes_appended += header.length + LOG_OVERHEAD
        self._tally.bytes_appended += header.length + LOG_OVERHEAD
        self.messages_appended += header.last_offset_delta + 1
        self.appends += 1
        self._advance()
        if self.watchers:
            for watcher in tuple(self.watchers):
                watcher.appended(self)
        return Appended(_NONE, base_offset, base_offset + header.last_offset_delta + 1, append_time, log.start_offset)

    def _turn_away(self, records: Buffer, answer: Appended) -> Appended:
        """Of what is wrong now nothing is the producer's fault: it will come again."""
        self._turned_away.note(records, answer.code)
        return answer

    def _after_one_turned_away(self, header: BatchHeader, seen: SeenBatch | Refused | None) -> Appended | None:
        if isinstance(seen, SeenBatch) or (seen is not None and seen.code is not _OUT_OF_ORDER):
            return None
        next_sequence = self.log.producers.next_sequence(header.producer_id, header.producer_epoch)
        code = self._turned_away.came_before(header, next_sequence)
        if code is None:
            return None
        message = f"the batch before this one was turned away ({code.name}); send it first, then this one again"
        return Appended(code, start_offset=self.log.start_offset, message=message)

    def _refused(self, rejected: Rejected) -> Appended:
        return Appended(
            rejected.code,
            start_offset=self.log.start_offset if rejected.tells_start else NO_OFFSET,
            message=rejected.message,
            record_errors=rejected.records,
        )

    def _append_of_client(self, records: Buffer, header: BatchHeader) -> Appended:
        return self._append_checked(records, header, Origin.CLIENT, self._env.clock.now_ms())

    def stop(self) -> None:
        """What is still being checked elsewhere is not appended any more."""
        self._checks.stop()

    # -- stages

    def _give_up_waiting(self) -> None:
        """The log has failed or the leadership is over: what was not acknowledged by now will never be."""
        for stage in (self.appended, self.flushed, self.committed, self._deletions):
            stage.release()

    def _on_flushed(self, offset: int) -> None:
        self.flushed.advance(offset)
        self._advance()

    def _advance(self) -> None:
        """After an append, a flush, a fetch of a follower or a change of the in-sync set: how far each stage is."""
        offset = self.log.committable_offset
        self.appended.advance(offset)
        if self.is_leader and offset > self.committed.value and len(self.leadership.isr) >= self._min_isr:
            if self.leading is not None:
                offset = min(offset, self.leading.high_watermark(self.log.end_offset, self._env.clock.elapsed()))
                if offset <= self.committed.value:
                    return
            self.log.producers.on_high_watermark(offset)
            self.committed.advance(offset)
            for listener in self.listeners:
                listener.high_watermark_moved(self, offset)
            if self.watchers:
                self._tell_watchers()

    def _tell_watchers(self) -> None:
        for watcher in tuple(self.watchers):
            watcher.changed(self)

    # -- followers

    def follower_fetched(self, replica: int, offset: int, start_offset: int, broker_epoch: int) -> ErrorCode:
        """A follower asks for what comes from an offset on: so much it has."""
        leading = self.leading
        follower = leading.followers.get(replica) if leading is not None else None
        if leading is None or follower is None or leading.is_stale(replica, broker_epoch):
            return ErrorCode.not_leader_or_follower
        before = follower.end_offset
        follower.fetched(offset, start_offset, self._env.clock.elapsed(), self.log.end_offset, broker_epoch)
        if replica not in leading.isr.maximal:
            change = leading.expansion(
                follower, self.committed.value, self.leader_epoch, self.leadership.partition_epoch
            )
            if change is not None:
                self._propose(leading, change)
        if before != offset:
            self._advance()
        self._deletions.advance(self.low_watermark)
        return _NONE

    def shrink_isr(self) -> None:
        """To be called now and then: who has not caught up for replica.lag.time.max.ms is not in sync."""
        leading = self.leading
        if leading is None:
            return
        now = self._env.clock.elapsed()
        leaving = leading.out_of_sync(self.log.end_offset, now)
        if leaving:
            _log.info(
                "%s, led here from offset %d with the high watermark at %d: not in sync are %s",
                *(self.key, self.log.end_offset, self.committed.value, leading.describe(leaving, now)),
            )
            self._propose(leading, leading.shrinking(leaving, self.leader_epoch, self.leadership.partition_epoch))

    def _propose(self, leading: Leading, change: IsrChange) -> None:
        leading.isr.propose(change)
        self._around.alter_isr(self, change)

    def isr_answered(self, change: IsrChange, answer: AlteredPartition) -> bool:
        """What the controller says to a change that was proposed; whether the in-sync set is now as proposed."""
        leading = self.leading
        if leading is None or leading.isr.change is not change:
            return False  # the metadata have told something else meanwhile
        if answer.error.code is not _NONE:
            if leading.isr.refused(answer.error.code):
                self._around.alter_isr(self, change)
            return False
        if not counts(answer, self.leader_epoch, self.leadership.partition_epoch):
            return False
        leading.isr.settle(answer.isr)
        self.leadership = self.leadership._replace(isr=answer.isr, partition_epoch=answer.partition_epoch)
        self._tell_watchers()
        _log.info("%s: in sync are %s, min.insync.replicas %d", self.key, list(answer.isr), self._min_isr)
        self._advance()
        return True

    @property
    def has_enough_replicas(self) -> bool:
        """Whether what is committed now is on as many replicas as min.insync.replicas demands."""
        leading = self.leading
        return len(self.leadership.isr if leading is None else leading.isr.maximal) >= self._min_isr

    # -- following: see following.py

    def followed_to(self, high_watermark: int) -> None:
        """The leader's high watermark, as far as the log goes here. A new leader may know of less than the old one."""
        self.appended.advance(self.log.committable_offset)
        offset = max(min(high_watermark, self.log.end_offset), self.log.local_start_offset)
        if offset > self.committed.value:
            self.log.producers.on_high_watermark(offset)
            self.committed.advance(offset)
            for listener in self.listeners:
                listener.high_watermark_moved(self, offset)
        elif offset < self.committed.value:
            self.committed.value = offset

    @property
    def awaits_sync(self) -> bool:
        """Whether flush.messages wants something synced before it is acknowledged, and it is not yet."""
        end_offset = self.log.end_offset
        if self.appended.value < end_offset:
            self.appended.advance(self.log.committable_offset)
        return self.appended.value < end_offset

    async def cut(
        self, offset: int, leader_epoch: int, *, fully: bool = False, before: Before | None = None
    ) -> bool:  # fmt: skip
        """Drops what the leader does not have; False if that failed or another epoch has begun meanwhile."""

        def is_wanted() -> bool:
            # One that was deleted has perhaps a namesake by now, whose files have the same names.
            is_here = self.log is log and not log.closed
            return is_here and not self.is_leader and self.leader_epoch == leader_epoch

        log = self.log
        self.is_being_cut = True
        try:
            done = await self._around.cut(log, offset, is_wanted, fully=fully, before=before)
        finally:
            self.is_being_cut = False
            if not self.is_leader:
                self._was_cut()
        return done and is_wanted()

    def _was_cut(self) -> None:
        """The log ends earlier now, or elsewhere."""
        log = self.log
        self.appended.value = log.committable_offset
        self.flushed.value = log.flushed_offset
        self.committed.value = max(min(self.committed.value, log.end_offset), log.local_start_offset)
        log.producers.on_high_watermark(self.committed.value)

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.leadership.isr) < self._min_isr

    @property
    def is_at_min_isr(self) -> bool:
        return len(self.leadership.isr) == self._min_isr

    @property
    def is_reassigning(self) -> bool:
        return self.is_leader and bool(self.leadership.adding or self.leadership.removing)

    @property
    def high_watermark(self) -> int:
        return self.committed.value

    @property
    def last_stable_offset(self) -> int:
        """Not below the log's start: an open transaction's first records may have been deleted."""
        unstable = self.log.producers.first_unstable_offset()
        if unstable is None:
            return self.committed.value
        return min(max(unstable, self.log.start_offset), self.committed.value)

    # -- reading

    def check_epoch(self, current_leader_epoch: int, *, leader_only: bool = True) -> ErrorCode:
        """What a client believes against what is so; -1 means it does not say."""
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            return epoch_error(current_leader_epoch, self.leader_epoch)
        return _NONE if self.is_leader or not leader_only else ErrorCode.not_leader_or_follower

    def fetch(
        self,
        from_offset: int,
        max_bytes: int,
        isolation: Isolation,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        replica: int = CONSUMER,
        *,
        at_least_one: bool = False,
        leader_only: bool = True,
    ) -> Fetched:
        """Raises NotInMemory where an index or a header has to come from the disk first, InTier for a consumer.

        A consumer reads up to the high watermark or the last stable offset, a follower up to the end of the log.
        """
        code = self.check_epoch(current_leader_epoch, leader_only=leader_only)
        log = self.log
        if code is not _NONE:
            return Fetched(code)
        if replica >= 0 and (replica == self._node_id or replica not in self.leadership.replicas):
            stale = current_leader_epoch != NO_EPOCH  # it may know of a reassignment that we do not know yet
            return Fetched(ErrorCode.unknown_leader_epoch if stale else ErrorCode.not_leader_or_follower)
        if log.failed is not None:
            return Fetched(ErrorCode.kafka_storage_error)
        high_watermark, stable = self.committed.value, self.last_stable_offset
        if last_fetched_epoch >= 0:
            end = log.epochs.end_of(last_fetched_epoch, log.end_offset)
            if end.epoch < 0 or from_offset < log.start_offset:
                return Fetched(ErrorCode.offset_out_of_range)
            if end.epoch < last_fetched_epoch or end.end_offset < from_offset:
                return Fetched(_NONE, high_watermark, stable, log.start_offset, diverging=end)
        committed_only = isolation is Isolation.READ_COMMITTED and replica < 0
        upper = log.end_offset if replica >= 0 else stable if committed_only else high_watermark
        try:
            data = log.read(from_offset, max_bytes, upper, at_least_one=at_least_one)
        except OffsetOutOfRange:
            return Fetched(ErrorCode.offset_out_of_range)
        except BeforeLocalStart:
            if not log.config.remote_storage_enable:
                return Fetched(ErrorCode.offset_out_of_range)  # it was, and what was there is being deleted
            if replica >= 0:
                return Fetched(ErrorCode.offset_moved_to_tiered_storage)
            raise InTier(Fetched(_NONE, high_watermark, stable, log.start_offset)) from None
        except DamagedLog as error:
            _log.error("%s cannot be read from offset %d on: %s", self.key, from_offset, error)
            return Fetched(ErrorCode.corrupt_message)
        aborted = None
        if committed_only:
            aborted = log.aborted_in(data, from_offset, upper) if data is not None else []
        return Fetched(_NONE, high_watermark, stable, log.start_offset, data, aborted)

    @property
    def offsets_are_known(self) -> bool:
        """False just after an election, while the high watermark has not reached the epoch's first offset (KIP-207)."""
        return self.committed.value >= self._epoch_start_offset
