"""Batches whose records are checked one by one, in another process if that takes long, and appended in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.env.ports import Buffer, Env
from ottla.model.config.topic import LogConfig
from ottla.model.errors import ErrorCode
from ottla.record.batch import BatchHeader, Codec, parse_header
from ottla.record.recompress import recompressed
from ottla.record.validate import AS_PRODUCED, BatchRules, Rejected, Walked, walk_records
from ottla.replica.results import Appended

_INLINE_WALK_BYTES: Final = 4096  # a walk over more than this goes to another process

Append = Callable[[Buffer, BatchHeader], Appended]


class CheckedAppends:
    """Appends whose records are checked elsewhere, and those that came after them, in order."""

    def __init__(
        self,
        env: Env,
        append: Append,
        refused: Callable[[Rejected], Appended],
        may_append: Callable[[int], bool],
    ) -> None:
        """`may_append` says whether this is still the leader in an epoch."""
        self.waiting: deque[_Checking] = deque()
        self._env = env
        self._append = append
        self._refused = refused
        self._may_append = may_append

    def check(
        self, records: Buffer, header: BatchHeader, rules: BatchRules, leader_epoch: int, now_ms: int
    ) -> Appended | asyncio.Future[Appended]:
        changes_codec = rules.codec >= 0 and rules.codec != header.codec
        small = header.codec == 0 and header.size <= _INLINE_WALK_BYTES
        if small and not self.waiting:
            done = (recompressed if changes_codec else walk_records)(records, rules, now_ms)
            if isinstance(done, Rejected):
                return self._refused(done)
            if isinstance(done, bytes):
                records, header = done, parse_header(done)
            return self._append(records, header)
        copy = bytes(records)  # the buffer that it came in is used again as soon as this returns
        check: asyncio.Future[Walked | Rejected | bytes] | None = None  # a batch that waits only for its turn
        if changes_codec:
            check = self._env.executor.compute(recompressed, copy, rules, now_ms)
        elif rules.needs_walk:
            check = self._env.executor.compute(walk_records, copy, rules, now_ms)
        waiting = _Checking(copy, header, leader_epoch, self._env.loop.create_future(), check)
        self.waiting.append(waiting)
        if check is not None:
            check.add_done_callback(lambda _: self._take_checked())
        return waiting.result

    def stop(self) -> None:
        """What is still being checked elsewhere is not appended any more."""
        given_up, self.waiting = self.waiting, deque()
        for waiting in given_up:
            waiting.result.set_result(Appended(ErrorCode.not_leader_or_follower))

    def _take_checked(self) -> None:
        """Appends, in the order in which they came, all whose check is done."""
        queue = self.waiting
        while queue and (queue[0].check is None or queue[0].check.done()):
            waiting = queue.popleft()
            if not self._may_append(waiting.leader_epoch):
                waiting.result.set_result(Appended(ErrorCode.not_leader_or_follower))
                continue
            records = waiting.checked()
            if isinstance(records, Rejected):
                waiting.result.set_result(self._refused(records))
                continue
            header = waiting.header if records is waiting.records else parse_header(records)
            waiting.result.set_result(self._append(records, header))


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


def rules_of(config: LogConfig) -> BatchRules:
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
