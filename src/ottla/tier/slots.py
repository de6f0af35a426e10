"""Memory for chunks of a fixed size, used again and again.

What is kept for long must not lie among what comes and goes in a dozen threads: each of them has a heap of its own, and
one kept chunk would hold all that was freed below it. On Linux the slots are a file in memory: what is written to it by
a thread is copied without the GIL, so the loop goes on meanwhile.
"""

from __future__ import annotations

import mmap as mapping
import os
import sys
from collections.abc import Callable
from mmap import mmap
from threading import Lock
from typing import Final

from ottla.env.ports import Buffer

_SPARE: Final = 8  # free slots that keep their memory
_FREES: Final[int | None] = getattr(mapping, "MADV_REMOVE", None)


class Chunk:
    """Read it through `view` for as long as you hold the chunk: its memory is another's when nobody does any more."""

    __slots__ = ("_slot", "_slots", "view")

    def __init__(self, data: bytes | memoryview, slots: Slots | None = None, slot: _Slot | None = None) -> None:
        self.view = memoryview(data)
        self._slots = slots
        self._slot = slot

    def __len__(self) -> int:
        return len(self.view)

    def __del__(self) -> None:
        if self._slots is not None and self._slot is not None:
            self.view.release()
            self._slots.give_back(self._slot)


class _Slot:
    __slots__ = ("memory", "position")

    def __init__(self, memory: mmap, position: int) -> None:
        self.memory = memory
        self.position = position


class Slots:
    def __init__(self, size: int) -> None:
        self._size = size
        self._file = _MemoryFile.make()
        self._free: list[_Slot] = []
        self._made = 0
        self._making = Lock()

    @property
    def bytes_lent(self) -> int:
        """What is kept, and what was given up and is still being sent."""
        return (self._made - len(self._free)) * self._size

    def keep(self, data: Buffer) -> Chunk:
        """A copy. May be called in a thread."""
        try:
            slot = self._free.pop()
        except IndexError:
            slot = self._make()
        if self._file is None or not self._file.write(data, slot.position):
            slot.memory[: len(data)] = bytes(data)
        return Chunk(memoryview(slot.memory)[: len(data)], self, slot)

    def _make(self) -> _Slot:
        with self._making:
            position = self._made * self._size
            memory = mmap(-1, self._size) if self._file is None else self._file.mapped(self._size, position)
            self._made += 1
        return _Slot(memory, position)

    def give_back(self, slot: _Slot) -> None:
        if len(self._free) >= _SPARE and _FREES is not None:  # many were being sent at once
            slot.memory.madvise(_FREES)
        self._free.append(slot)


class _MemoryFile:
    """Closed with the last thread that may still write to it: its number may be another file's by then."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @staticmethod
    def make() -> _MemoryFile | None:
        if sys.platform != "linux":
            return None
        try:
            return _MemoryFile(os.memfd_create("ottla-tier", os.MFD_CLOEXEC))
        except OSError:  # a sandbox may not have it
            return None

    def mapped(self, size: int, position: int) -> mmap:
        os.ftruncate(self._fd, position + size)
        return mmap(self._fd, size, offset=position)

    def write(self, data: Buffer, position: int) -> bool:
        return os.pwrite(self._fd, data, position) == len(data)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self._fd)  # when the interpreter ends, `os` may be gone before this
