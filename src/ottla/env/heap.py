"""Memory that was freed stays with the process, for one that takes and gives back megabytes all the time.

glibc returns large pieces to the kernel as soon as they are freed, and the next one is made of empty pages again: half
of the kernel's time of a task that reads a topic in pieces of 8 MiB was spent on that.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Final

_TRIM_THRESHOLD: Final = -1  # glibc's malloc.h
_MMAP_THRESHOLD: Final = -3
_LARGEST_PIECE: Final = 32 << 20  # the most that every glibc takes
_KEPT_BYTES: Final = 128 << 20


@cache
def keep_freed_memory() -> bool:
    """Up to 128 MiB, and not for pieces above 32 MiB. False where malloc cannot be told."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and bool(
        mallopt(_MMAP_THRESHOLD, _LARGEST_PIECE) and mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    )
