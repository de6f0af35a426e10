"""In the process of `ottla up`: the small pipeline is a process of its own, so that the node waits for nothing of it.

It ends when its standard input does, however the node went.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final, NamedTuple

from ottla.cli.output import note

INSTALL: Final = 'pip install "ottla[pipelines]"'
FOLDER: Final = "demo"
"""In the data folder: state and logs."""
LOG_NAME: Final = "demo.log"
_END_WITHIN_S: Final = 15.0


class Wanted(NamedTuple):
    is_asked_for: bool
    first: str
    """A command that brings PySpark if it is missing; empty if there is none."""

    @property
    def runs(self) -> bool:
        return self.is_asked_for and (bool(self.first) or is_installed())


def is_installed() -> bool:
    return all(find_spec(name) is not None for name in ("pyspark", "pyarrow", "pandas", "yaml", "sqlglot"))


def remark() -> str:
    """How to get to see it, where it does not run."""
    how = "`ottla up --spark` also runs a small pipeline"
    return how if is_installed() else f"{INSTALL} for data pipelines; then {how}"


class Beside:
    """`log`: where it tells how it is doing, if not on stderr."""

    def __init__(self, wanted: Wanted, folder: Path, log: Path | None = None) -> None:
        self._wanted = wanted
        self._folder = folder / FOLDER
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, address: str) -> None:
        """Does not wait for anything, and tells rather than fails: a node is worth more than this."""
        if not self._wanted.runs:
            return
        command = [sys.executable, "-m", "ottla.cli.demo.show", address, str(self._folder), self._wanted.first]
        output: IO[bytes] | None = None
        try:
            output = None if self._log is None else self._log.open("ab")
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )
        except OSError as error:
            note(f"The small pipeline could not be started: {error}")
        finally:
            if output is not None:
                output.close()

    def end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
