"""What the quorum needs of the log of `__cluster_metadata-0`."""

from collections.abc import Iterator
from typing import Protocol

from ottla.env.ports import Buffer


class RaftLog(Protocol):
    """Appends are atomic for a reader and after a crash: a batch is there as a whole or not at all."""

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

    async def flush(self) -> int:
        """Makes durable what was appended before the call; gives the offset that everything below is durable.

        OSError if it cannot: what was appended since the last good flush may or may not survive.
        """

    def read_from(self, offset: int) -> Iterator[memoryview]:
        """The batches from the one that holds this offset on. Blocks: for loading while a node starts."""
