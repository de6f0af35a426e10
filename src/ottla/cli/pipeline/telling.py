"""How a run tells how it is doing: on a terminal by a bar for each query, else by a line for each micro-batch."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from ottla.cli.output import note

if TYPE_CHECKING:
    from ottla.pipeline.progress import Progress

_CELLS: Final = 10


class Teller(Protocol):
    def tell(self, now: Progress) -> None: ...

    def end(self) -> None: ...


def teller() -> Teller:
    return Bars() if sys.stderr.isatty() else Lines()


class Lines:
    def tell(self, now: Progress) -> None:
        note(now.line())

    def end(self) -> None:
        pass


class Bars:
    """One line for all queries, written anew. A bar is full when nothing that is there is still to be read."""

    def __init__(self) -> None:
        self._rows: Counter[str] = Counter()
        self._newest: dict[str, Progress] = {}
        self._width = 0

    def tell(self, now: Progress) -> None:
        self._rows[now.view] += now.rows
        self._newest[now.view] = now
        text = "   ".join(self._told(one) for one in self._newest.values())
        text = text[: max(shutil.get_terminal_size().columns - 1, 20)]
        sys.stderr.write(f"\r{text.ljust(self._width)}")
        sys.stderr.flush()
        self._width = len(text)

    def _told(self, now: Progress) -> str:
        done = self._rows[now.view]
        there = done + (now.behind or 0)
        filled = _CELLS if not there else _CELLS * done // there
        line = now.line().removeprefix(f"{now.view}: ")
        return f"{now.view} {'█' * filled}{'░' * (_CELLS - filled)} {line}"

    def end(self) -> None:
        """What is told next stands in a line of its own."""
        if self._width:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._width = 0
