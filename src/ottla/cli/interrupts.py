"""Ctrl-C in the middle of a call of librdkafka's.

Python handles a signal in the first line of Python that runs, and that may be one which librdkafka has called: a log
line, a delivery, a new assignment. What is raised there is lost on its way through C, and the call ends with a
SystemError that tells nobody anything. So for the short time of a call a signal is only noted.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class _PutOff:
    """One for the process, as its signals are; only the main thread is ever interrupted."""

    def __init__(self) -> None:
        self._is_calling = False
        self._came = False

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is signal.default_int_handler:
                    signal.signal(number, self._handle)
            self._is_calling = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if threading.current_thread() is threading.main_thread():
            self._is_calling = False
            if self._came:
                self._came = False
                raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._is_calling:
            raise KeyboardInterrupt
        self._came = True


put_off: Final = _PutOff()
"""`with put_off:` around a call that does not take long. KeyboardInterrupt comes when it is over."""
