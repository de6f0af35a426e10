"""What the quorum needs of the log of `__cluster_metadata-0`."""

from collections.abc import Iterator
from typing import Protocol

from ottla.env.ports import Buffer
from ottla.raft.log_view import EpochStart


class RaftLog(Protocol):
    """Appends are atomic for a reader and after a crash: a batch is there as a whole or not at all."""

    @property
    def start_offset(self) -> int:
        """The first offset that is there; a snapshot stands for all before it."""

    @property
    def epoch_starts(self) -> list[EpochStart]:
        """The epochs that have batches in it, and where each begins."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch; 0 if there is none."""

    def append(self, batch: Buffer, epoch: int) -> int:
        """Puts one batch at the end, with its base offset and this epoch in its header, and gives the base offset.

        OSError if that failed; the log then ends where it ended before.
        """

    def append_as_is(self, batch: Buffer) -> None:
        """Puts one batch of the leader at the end, which has its offsets and its epoch. OSError as above."""

    def truncate(self, end_offset: int) -> None:
        """Takes away all batches from this offset on, at which one begins. Blocks, and happens seldom."""

    def trim(self, start_offset: int) -> list[str]:
        """A snapshot stands for all before this offset. Gives the paths of files to remove, which count no more."""

    def size_from(self, start_offset: int) -> int:
        """The bytes that are left if it is trimmed there."""

    def restart_at(self, offset: int) -> None:
        """Drops all batches; the next has this offset. Blocks, and happens when a snapshot takes the log's place."""

    def read(self, offset: int, max_bytes: int) -> list[bytes]:
        """Batches from the one that holds this offset on; at least one, if there is one."""

    async def flush(self) -> int:
        """Makes durable what was appended before the call; gives the offset that everything below is durable.

        OSError if it cannot: what was appended since the last good flush may or may not survive.
        """

    def read_from(self, offset: int) -> Iterator[memoryview]:
        """The batches from the one that holds this offset on. Blocks: for loading while a node starts."""
