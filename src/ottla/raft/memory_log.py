"""A RaftLog in memory, for tests and for clusters that need not outlive their process."""

import asyncio
from collections.abc import Iterator

from ottla.env.ports import Buffer
from ottla.raft.log_view import EpochStart
from ottla.record.batch import new_head, parse_header


class MemoryRaftLog:
    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self._starts_at = 0
        self.flushed_offset = 0
        self.append_error: OSError | None = None
        self.flush_error: OSError | None = None

    @property
    def start_offset(self) -> int:
        return parse_header(self.batches[0]).base_offset if self.batches else self._starts_at

    @property
    def epoch_starts(self) -> list[EpochStart]:
        starts: dict[int, int] = {}
        for batch in self.batches:
            header = parse_header(batch)
            starts.setdefault(header.leader_epoch, header.base_offset)
        return [EpochStart(epoch, offset) for epoch, offset in starts.items()]

    @property
    def end_offset(self) -> int:
        return parse_header(self.batches[-1]).next_offset if self.batches else self._starts_at

    @property
    def last_epoch(self) -> int:
        return parse_header(self.batches[-1]).leader_epoch if self.batches else 0

    def append(self, batch: Buffer, epoch: int) -> int:
        if self.append_error is not None:
            raise self.append_error
        base_offset = self.end_offset
        head = new_head(base_offset, parse_header(batch).length, epoch)
        self.batches.append(head + bytes(memoryview(batch)[len(head) :]))
        return base_offset

    def append_as_is(self, batch: Buffer) -> None:
        if self.append_error is not None:
            raise self.append_error
        self.batches.append(bytes(batch))

    def truncate(self, end_offset: int) -> None:
        self.batches = [batch for batch in self.batches if parse_header(batch).next_offset <= end_offset]
        self.flushed_offset = min(self.flushed_offset, self.end_offset)

    def trim(self, start_offset: int) -> list[str]:
        self.batches = [batch for batch in self.batches if parse_header(batch).next_offset > start_offset]
        self._starts_at = start_offset
        return []

    def size_from(self, start_offset: int) -> int:
        return sum(len(batch) for batch in self.batches if parse_header(batch).next_offset > start_offset)

    def restart_at(self, offset: int) -> None:
        self.batches.clear()
        self._starts_at = self.flushed_offset = offset

    def read(self, offset: int, max_bytes: int) -> list[bytes]:
        found: list[bytes] = []
        for batch in self.read_from(offset):
            max_bytes -= len(batch)
            if found and max_bytes < 0:
                break
            found.append(bytes(batch))
        return found

    async def flush(self) -> int:
        end = self.end_offset
        await asyncio.sleep(0)
        if self.flush_error is not None:
            raise self.flush_error
        self.flushed_offset = max(self.flushed_offset, end)
        return self.flushed_offset

    def read_from(self, offset: int) -> Iterator[memoryview]:
        for batch in self.batches:
            if parse_header(batch).next_offset > offset:
                yield memoryview(batch)

    def lose_power(self) -> None:
        """Drops what was not flushed."""
        self.batches = [batch for batch in self.batches if parse_header(batch).next_offset <= self.flushed_offset]
