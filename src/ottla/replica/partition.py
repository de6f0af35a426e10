"""One partition on this node: who may append and read, how far records are committed, and who is told.

Every check of leadership, epoch, in-sync replicas and offsets is in here, so that an API only has to ask. With one
replica the in-sync set is this node alone and the high watermark follows the log's end; nothing else is special.

Three stages of a record, each a `Progress` that anyone can wait on:
- appended: in the log, and flushed as far as flush.messages demands. What acks=1 waits for.
- flushed: would survive a loss of power.
- committed: below the high watermark. What acks=all waits for, and what consumers see.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from enum import IntEnum
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from ottla.env.ports import Buffer, Env
from ottla.log.end_markers import note_end
from ottla.log.epochs import EpochEnd
from ottla.log.partition_log import PartitionLog
from ottla.log.producers import Origin, SeenBatch
from ottla.log.reading import LogRead, OffsetOutOfRange
from ottla.log.segment import DamagedLog
from ottla.log.txn_index import AbortedTxn
from ottla.model.config.topic import LogConfig
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, TopicPartition
from ottla.record.batch import LOG_OVERHEAD, BatchHeader, Codec, parse_header, with_log_append_time
from ottla.record.recompress import recompressed
from ottla.record.validate import AS_PRODUCED, BatchRules, Rejected, Walked, check_produced, walk_records
from ottla.replica.progress import Progress

_log = logging.getLogger("ottla.replica")
_NONE: Final = ErrorCode.none
CONSUMER: Final = -1  # the replica id of those who are none
_INLINE_WALK_BYTES: Final = 4096  # a walk over more than this goes to another process


class Isolation(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Appended(NamedTuple):
    """What became of a batch. With an error the offsets are -1."""

    code: ErrorCode
    base_offset: int = NO_OFFSET
    next_offset: int = NO_OFFSET
    log_append_time: int = NO_TIMESTAMP
    start_offset: int = NO_OFFSET
    message: str | None = None
    record_errors: tuple[tuple[int, str], ...] = ()


class Fetched(NamedTuple):
    code: ErrorCode
    high_watermark: int = NO_OFFSET
    last_stable_offset: int = NO_OFFSET
    start_offset: int = NO_OFFSET
    data: LogRead | None = None
    aborted: list[AbortedTxn] | None = None
    diverging: EpochEnd | None = None


class Leadership(NamedTuple):
    """What the metadata says about a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int = 0


class PartitionListener(Protocol):
    """Told in order, on the loop. For coordinators, fetchers and waiting requests."""

    def high_watermark_moved(self, partition: Partition, offset: int) -> None: ...
    def leadership_changed(self, partition: Partition, led_before: bool) -> None: ...


class Partition:
    def __init__(
        self, env: Env, node_id: int, key: TopicPartition, topic_id: UUID, log: PartitionLog, high_watermark: int
    ) -> None:
        self.key = key
        self.topic_id = topic_id
        self.log = log
        self.leadership = Leadership(-1, NO_EPOCH, (), ())
        self.is_leader = False
        self.leader_epoch = NO_EPOCH
        self.appended = Progress(log.committable_offset)
        self.flushed = Progress(log.flushed_offset)
        self.committed = Progress(min(max(high_watermark, log.start_offset), log.end_offset))
        self.listeners: list[PartitionListener] = []
        # Since the start of this process, for metrics; waiting fetches count by the bytes.
        self.bytes_appended = self.messages_appended = self.appends = self.failed_appends = 0
        self.bytes_fetched = self.fetches = self.failed_fetches = 0
        self._env = env
        self._node_id = node_id
        self._epoch_start_offset = 0
        self._min_isr = 1
        self._rules = _rules(log.config)
        self._needs_walk = self._rules.needs_walk
        self._codec = self._rules.codec
        # Appends whose records are checked in another process, and those that came after them, in order.
        self._checking: deque[_Checking] = deque()
        log.on_flushed = self._on_flushed
        log.on_failed = self._give_up_waiting
        log.producers.on_high_watermark(self.committed.value)

    # -- leadership and configuration

    def lead_or_follow(self, leadership: Leadership) -> None:
        led_before = self.is_leader
        new_epoch = leadership.leader_epoch != self.leader_epoch
        self.leadership = leadership
        self.leader_epoch = leadership.leader_epoch
        self.is_leader = leadership.leader == self._node_id
        self._min_isr = min(self.log.config.min_insync_replicas, max(len(leadership.replicas), 1))
        if self.is_leader and new_epoch:
            self._epoch_start_offset = self.log.end_offset
            self.log.assign_epoch(self.leader_epoch, self.log.end_offset)
        if self.is_leader:
            self._advance()
        if new_epoch or led_before != self.is_leader:
            if led_before and not self.is_leader:
                self._give_up_waiting()
            for listener in self.listeners:
                listener.leadership_changed(self, led_before)

    def configure(self, config: LogConfig) -> None:
        self.log.configure(config)
        self._rules = _rules(config)
        self._needs_walk = self._rules.needs_walk
        self._codec = self._rules.codec
        self._min_isr = min(config.min_insync_replicas, max(len(self.leadership.replicas), 1))

    def use_log(self, log: PartitionLog) -> None:
        """The log goes on in another folder, from the same offset."""
        self.log = log
        self._advance()

    def delete_records(self, offset: int) -> ErrorCode | int:
        """Moves the start of the log, to the high watermark for -1; gives where it is then."""
        log = self.log
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if log.failed is not None:
            return ErrorCode.kafka_storage_error
        if not log.config.delete:
            return ErrorCode.policy_violation
        wanted = self.committed.value if offset == NO_OFFSET else offset
        if not 0 <= wanted <= self.committed.value:
            return ErrorCode.offset_out_of_range
        try:
            log.advance_start(wanted)
        except OSError as error:
            log.fail(error)
            return ErrorCode.kafka_storage_error
        return log.start_offset

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
            return Appended(ErrorCode.not_leader_or_follower)
        if expected_leader_epoch >= 0 and expected_leader_epoch != self.leader_epoch:
            return Appended(_epoch_error(expected_leader_epoch, self.leader_epoch))
        if acks == -1 and len(self.leadership.isr) < self._min_isr:
            return Appended(
                ErrorCode.not_enough_replicas,
                message=f"The size of the current ISR {len(self.leadership.isr)} is insufficient to satisfy the "
                f"min.isr requirement of {self._min_isr} for partition {self.key}",
            )
        now_ms = self._env.clock.now_ms()
        rules = self._rules
        if origin is Origin.CLIENT:
            header = check_produced(records, rules, now_ms, version)
            if isinstance(header, Rejected):
                return self._refused(header)
            if self._needs_walk or self._checking or (self._codec >= 0 and self._codec != header.codec):
                return self._append_after_walk(records, header, now_ms)
        else:
            header = parse_header(records)
        return self._append_checked(records, header, origin, now_ms)

    def _append_checked(self, records: Buffer, header: BatchHeader, origin: Origin, now_ms: int) -> Appended:
        log = self.log
        if header.producer_id >= 0 and origin is Origin.CLIENT:
            seen = log.producers.check(header)
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
            return Appended(ErrorCode.kafka_storage_error, message=f"{log.folder}: {error}")
        if origin is Origin.COORDINATOR and header.is_control:
            note_end(log, records, header, base_offset)
        self.bytes_appended += header.length + LOG_OVERHEAD
        self.messages_appended += header.last_offset_delta + 1
        self.appends += 1
        self._advance()
        return Appended(_NONE, base_offset, base_offset + header.last_offset_delta + 1, append_time, log.start_offset)

    def _refused(self, rejected: Rejected) -> Appended:
        return Appended(
            rejected.code,
            start_offset=self.log.start_offset if rejected.tells_start else NO_OFFSET,
            message=rejected.message,
            record_errors=rejected.records,
        )

    # -- batches that are checked record by record

    def _append_after_walk(
        self, records: Buffer, header: BatchHeader, now_ms: int
    ) -> Appended | asyncio.Future[Appended]:
        changes_codec = self._codec >= 0 and self._codec != header.codec
        small = header.codec == 0 and header.size <= _INLINE_WALK_BYTES
        if small and not self._checking:
            done = (recompressed if changes_codec else walk_records)(records, self._rules, now_ms)
            if isinstance(done, Rejected):
                return self._refused(done)
            if isinstance(done, bytes):
                records, header = done, parse_header(done)
            return self._append_checked(records, header, Origin.CLIENT, now_ms)
        copy = bytes(records)  # the buffer that it came in is used again as soon as this returns
        check: asyncio.Future[Walked | Rejected | bytes] | None = None  # a batch that waits only for its turn
        if changes_codec:
            check = self._env.executor.compute(recompressed, copy, self._rules, now_ms)
        elif self._needs_walk:
            check = self._env.executor.compute(walk_records, copy, self._rules, now_ms)
        waiting = _Checking(copy, header, self.leader_epoch, self._env.loop.create_future(), check)
        self._checking.append(waiting)
        if check is not None:
            check.add_done_callback(lambda _: self._take_checked())
        return waiting.result

    def stop(self) -> None:
        """What is still being checked elsewhere is not appended any more."""
        given_up, self._checking = self._checking, deque()
        for waiting in given_up:
            waiting.result.set_result(Appended(ErrorCode.not_leader_or_follower))

    def _take_checked(self) -> None:
        """Appends, in the order in which they came, all whose check is done."""
        queue = self._checking
        while queue and (queue[0].check is None or queue[0].check.done()):
            waiting = queue.popleft()
            if not self.is_leader or waiting.leader_epoch != self.leader_epoch:
                waiting.result.set_result(Appended(ErrorCode.not_leader_or_follower))
                continue
            records = waiting.checked()
            if isinstance(records, Rejected):
                waiting.result.set_result(self._refused(records))
                continue
            header = waiting.header if records is waiting.records else parse_header(records)
            now_ms = self._env.clock.now_ms()
            waiting.result.set_result(self._append_checked(records, header, Origin.CLIENT, now_ms))

    # -- stages

    def _give_up_waiting(self) -> None:
        """The log has failed or the leadership is over: what was not acknowledged by now will never be."""
        for stage in (self.appended, self.flushed, self.committed):
            stage.release()

    def _on_flushed(self, offset: int) -> None:
        self.flushed.advance(offset)
        self._advance()

    def _advance(self) -> None:
        """After an append, a flush or a change of the in-sync set: how far each stage has come."""
        offset = self.log.committable_offset
        self.appended.advance(offset)
        if self.is_leader and offset > self.committed.value and len(self.leadership.isr) >= self._min_isr:
            # The in-sync set is this node alone; followers' offsets join in here with replication.
            self.log.producers.on_high_watermark(offset)
            self.committed.advance(offset)
            for listener in self.listeners:
                listener.high_watermark_moved(self, offset)

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.leadership.isr) < self._min_isr

    @property
    def is_at_min_isr(self) -> bool:
        return len(self.leadership.isr) == self._min_isr

    @property
    def high_watermark(self) -> int:
        return self.committed.value

    @property
    def last_stable_offset(self) -> int:
        unstable = self.log.producers.first_unstable_offset()
        return self.committed.value if unstable is None else min(unstable, self.committed.value)

    # -- reading

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """What a client believes against what is so; -1 means it does not say."""
        if current_leader_epoch != NO_EPOCH and current_leader_epoch != self.leader_epoch:
            return _epoch_error(current_leader_epoch, self.leader_epoch)
        return _NONE if self.is_leader else ErrorCode.not_leader_or_follower

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
    ) -> Fetched:
        """Raises NotInMemory where an index or a header has to come from the disk first.

        A consumer reads up to the high watermark or the last stable offset, a follower up to the end of the log.
        """
        code = self.check_epoch(current_leader_epoch)
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
        except DamagedLog as error:
            _log.error("%s cannot be read from offset %d on: %s", self.key, from_offset, error)
            return Fetched(ErrorCode.corrupt_message)
        aborted = None
        if committed_only:
            aborted = log.aborted_between(from_offset, upper) if data is not None else []
        return Fetched(_NONE, high_watermark, stable, log.start_offset, data, aborted)

    @property
    def offsets_are_known(self) -> bool:
        """False just after an election, while the high watermark has not reached the epoch's first offset (KIP-207)."""
        return self.committed.value >= self._epoch_start_offset


class _Checking:
    __slots__ = ("check", "header", "leader_epoch", "records", "result")

    def __init__(
        self,
        records: bytes,
        header: BatchHeader,
        leader_epoch: int,
        result: asyncio.Future[Appended],
        check: asyncio.Future[Walked | Rejected | bytes] | None,
    ) -> None:
        self.records = records
        self.header = header
        self.leader_epoch = leader_epoch
        self.result = result
        self.check = check

    def checked(self) -> bytes | Rejected:
        """The batch that is to be stored."""
        if self.check is None:
            return self.records
        if (error := self.check.exception()) is not None:
            return Rejected(ErrorCode.unknown_server_error, f"the records could not be checked: {error}")
        result = self.check.result()
        return self.records if isinstance(result, Walked) else result


_CODECS: Final = {
    "uncompressed": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD,
}  # fmt: skip


def _rules(config: LogConfig) -> BatchRules:
    return BatchRules(
        config.max_message_bytes,
        config.compact,
        config.log_append_time,
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
        _CODECS.get(config.compression_type, AS_PRODUCED),
        {
            "gzip": config.compression_gzip_level,
            "lz4": config.compression_lz4_level,
            "zstd": config.compression_zstd_level,
        }.get(config.compression_type),
    )


def _epoch_error(theirs: int, ours: int) -> ErrorCode:
    return ErrorCode.fenced_leader_epoch if theirs < ours else ErrorCode.unknown_leader_epoch
