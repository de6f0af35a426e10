"""How nodes are shown while they run: a table that is kept up to date on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Sequence
from typing import Final

from ottla.cli.output import aligned, note
from ottla.cli.progress import bytes_text
from ottla.cli.supervise.child import Child, State
from ottla.cli.terminal_text import one_line

HEADER: Final = ("NODE", "ROLES", "STATE", "FOR", "PID", "ADDRESS", "MEMORY")
_UP, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[{}A", "\x1b[K", "\x1b[J"
_REDRAW_EVERY_S: Final = 1.0


class Screen:
    def __init__(self) -> None:
        self._draws = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._drawn = 0
        self._last: list[str] = []
        self._drawn_s = 0.0
        self.is_live = False
        """The table is drawn from when the greeting is out."""

    def show(self, children: Sequence[Child], line: str | None) -> None:
        if not self._draws:
            if line is not None:
                note(line)
            return
        if line is not None:
            self._clear()
            note(line)
        if self.is_live and (line is not None or self._is_due(children)):
            self._draw(table(children, shutil.get_terminal_size().columns))

    def _is_due(self, children: Sequence[Child]) -> bool:
        states = [child.state.value for child in children]
        return states != self._last or time.monotonic() - self._drawn_s >= _REDRAW_EVERY_S

    def _draw(self, lines: Sequence[str]) -> None:
        back = _UP.format(self._drawn) if self._drawn else ""
        body = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
        sys.stderr.write(f"{back}{body}{_REST_OF_SCREEN}")
        sys.stderr.flush()
        self._drawn, self._drawn_s = len(lines), time.monotonic()

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write(f"{_UP.format(self._drawn)}{_REST_OF_SCREEN}")
            sys.stderr.flush()
            self._drawn = 0


def table(children: Sequence[Child], columns: int) -> list[str]:
    """Lines of a table that fit; below it, of nodes that have ended by themselves, why and what to do."""
    rows = [HEADER, *(_cells(child) for child in children)]
    lines = [line[:columns] for line in aligned(rows)]
    for child in children:
        if child.state is State.ENDED:
            number = child.place.id
            told = f"Node {number} {one_line(child.why)}. `ottla node start {number}` starts it again."
            lines += textwrap.wrap(told, max(20, columns - 1), subsequent_indent="  ")
    return lines


def _cells(child: Child) -> tuple[str, ...]:
    memory = child.memory() if child.lives else None
    return (
        str(child.place.id),
        ",".join(child.place.roles),
        child.state.value,
        span(time.monotonic() - child.since),
        str(child.pid) if child.lives else "-",
        child.address,
        "-" if memory is None else bytes_text(memory),
    )


def span(seconds: float) -> str:
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}" if whole >= 3600 else f"{rest // 60}:{rest % 60:02}"
    return f"{days}d {clock}" if days else clock
