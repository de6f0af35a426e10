"""A process that works for a node (`processes.py`).

Orders come by the standard input and answers go by the standard output, each as its length and a pickle. An order names
a function, which is imported when it is needed. The process ends with its input, or with its node.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Any, BinaryIO, Final

from ottla.env.disk import PosixDisk

_PR_SET_PDEATHSIG: Final = 1
_NICENESS: Final = 10  # the node's loop, and whoever it serves, come first
_TURN_S: Final = 0.002  # of work before others are let: on a busy machine each time costs a slice of theirs
LENGTH: Final = Struct(">I")


class Said(Enum):
    NEWS = "news"
    RESULT = "result"
    LAST_RESULT = "last result"
    ERROR = "error"


def die_with_parent() -> None:
    """A node that was killed cannot stop its workers: Linux does, if it is asked to."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class RealWorkplace:
    def __init__(self, say: Callable[[Said, object], None]) -> None:
        self.disk = PosixDisk()
        self.is_retiring = False
        self._say = say
        self._turn_began = time.monotonic()
        self._comes_last = False

    def tell(self, news: object) -> None:
        self._say(Said.NEWS, news)

    def retire(self) -> None:
        self.is_retiring = True

    def come_last(self) -> None:
        if not self._comes_last:
            self._comes_last = True
            with contextlib.suppress(OSError):
                os.nice(_NICENESS)

    def let_others(self) -> None:
        if sys.platform != "win32" and time.monotonic() - self._turn_began >= _TURN_S:
            os.sched_yield()
            self._turn_began = time.monotonic()

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def elapsed(self) -> float:
        return time.monotonic()


def framed(content: object) -> bytes:
    data = pickle.dumps(content)
    return LENGTH.pack(len(data)) + data


def serve(orders: BinaryIO, answers: BinaryIO) -> None:
    def say(kind: Said, content: object) -> None:
        answers.write(framed((kind, content)))
        answers.flush()

    place = RealWorkplace(say)
    while len(head := orders.read(LENGTH.size)) == LENGTH.size:
        work, order = pickle.loads(orders.read(LENGTH.unpack(head)[0]))  # noqa: S301  (from the node that started us)
        try:
            result: Any = work(place, order)
        except Exception as error:
            say(Said.ERROR, error)
        else:
            say(Said.LAST_RESULT if place.is_retiring else Said.RESULT, result)
            if place.is_retiring:
                return


def _wake_nobody() -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # nobody has to give way to it when it wakes, whatever its node's policy
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the node, which ends us in its own time
    _wake_nobody()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between answers
    with contextlib.suppress(BrokenPipeError):
        serve(sys.stdin.buffer, answers)
