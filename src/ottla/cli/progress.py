"""A line that tells how far something has come, on a terminal only."""

from __future__ import annotations

import sys
import time
from typing import Final

EVERY_S: Final = 0.5


class Progress:
    """`tick` may be called as often as one likes; `end` clears the line."""

    def __init__(self, what: str = "records", *, total: int | None = None, shown: bool = True) -> None:
        self._what = what
        self._total = total
        self._shown = shown and sys.stderr.isatty()
        self._last = time.monotonic()
        self._before = 0
        self._width = 0

    def tick(self, done: int, more: str = "") -> None:
        if not self._shown:
            return
        now = time.monotonic()
        if now - self._last < EVERY_S:
            return
        rate = (done - self._before) / (now - self._last)
        self._last, self._before = now, done
        of = f" of {self._total:,} ({done / self._total:.0%})" if self._total else ""
        text = f"{done:,}{of} {self._what}, {rate:,.0f}/s{f', {more}' if more else ''}"
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(text)

    def end(self) -> None:
        if self._shown and self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()
            self._width = 0


def bytes_text(number: float) -> str:
    """In thousands, as rates are told; configs, which are powers of two, are told in MiB."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(number) < 1000 or unit == "GB":
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError
