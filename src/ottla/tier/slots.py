"""Memory for chunks of a fixed size, used again and again.

What is kept for long must not lie among what comes and goes in a dozen threads: each of them has a heap of its own, and
one kept chunk would hold all that was freed below it.
"""

from __future__ import annotations

from mmap import mmap

from ottla.env.ports import Buffer


class Slots:
    def __init__(self, size: int) -> None:
        self._size = size
        self._free: list[memoryview] = []

    def keep(self, data: Buffer) -> memoryview:
        """A copy. It may be read until it is given back."""
        slot = self._free.pop() if self._free else memoryview(mmap(-1, self._size))
        kept = slot[: len(data)]
        kept[:] = data
        return kept

    def give_back(self, kept: memoryview) -> None:
        whole = kept.obj
        assert isinstance(whole, mmap)
        self._free.append(memoryview(whole))
