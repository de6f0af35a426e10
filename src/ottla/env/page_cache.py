"""Whether a part of a file is in memory, so that handing it to a socket does not wait for a disk.

Linux 6.5 and newer can tell (cachestat); elsewhere the answer is no.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any, Final

_CACHESTAT: Final = 451  # on all architectures
_PAGE: Final = mmap.PAGESIZE
_U64: Final = ctypes.c_uint64


def _find_syscall() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    syscall = ctypes.CDLL(None).syscall
    syscall.argtypes = (ctypes.c_long, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
    syscall.restype = ctypes.c_long
    return syscall


_syscall = _find_syscall()
_range = (_U64 * 2)()
_counts = (_U64 * 5)()  # pages: cached, dirty, under writeback, evicted, evicted lately
_RANGE_AT: Final = ctypes.addressof(_range)
_COUNTS_AT: Final = ctypes.addressof(_counts)


def is_cached(fd: int, position: int, size: int) -> bool:
    """To be asked by one thread only."""
    if _syscall is None:
        return False
    _range[0], _range[1] = position, size
    if _syscall(_CACHESTAT, fd, _RANGE_AT, _COUNTS_AT, 0) != 0:
        return False  # an older kernel, or one that forbids to ask
    pages = (position + size - 1) // _PAGE - position // _PAGE + 1
    return _counts[0] >= pages
