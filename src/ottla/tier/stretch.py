"""A part of a segment in the remote tier, as a file that answers are sent from: out of the cached chunks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar, Final

from ottla.tier.manifest import CHUNK_BYTES
from ottla.tier.slots import Chunk

_AT_ONCE: Final = 256 * 1024  # copied into a socket while everyone else waits


class Stretch:
    """Positions are those within it; `end` is where it ends in the segment. It holds the chunks that it is made of."""

    __slots__ = ("_chunks", "_size", "_skipped", "end", "path")
    gives_way: ClassVar[bool] = True  # who reads old records reads many; who follows a log's end does not wait for him

    def __init__(self, path: str, chunks: Sequence[Chunk], start: int, size: int) -> None:
        """From a position of the segment on, which is in the first of the chunks."""
        self.path = path
        self.end = start + size
        self._chunks = chunks
        self._skipped = start % CHUNK_BYTES
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self.pread(self._size, 0)

    def pread(self, size: int, position: int) -> bytes:
        parts = []
        end = min(position + size, self._size)
        while position < end:
            parts.append(bytes(self._piece(position, end - position)))
            position += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def pread_nowait(self, size: int, position: int) -> bytes:
        return self.pread(size, position)

    def send_nowait(self, socket: int, size: int, position: int) -> int:
        try:
            return os.write(socket, self._piece(position, min(size, self._size - position, _AT_ONCE)))
        except OSError:  # it is full, or gone: a read and a write will tell
            return 0

    def _piece(self, position: int, size: int) -> memoryview:
        """To the end of its chunk at most."""
        number, within = divmod(self._skipped + position, CHUNK_BYTES)
        return self._chunks[number].view[within : within + size]


NOTHING: Final = Stretch("", (), 0, 0)
