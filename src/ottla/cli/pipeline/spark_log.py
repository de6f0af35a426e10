"""Where Spark's own words go: hundreds of lines of Java for a record that is wrong hide the one line that says so.

Spark's processes take over descriptor 2 of this one. Meanwhile it is a file, and what this process has to say goes to
where it pointed before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from ottla.cli.output import note

NAME: Final = "spark.log"
_LARGEST: Final = 16 << 20
_LAST_LINES: Final = 15

F = TypeVar("F", bound=Callable[..., Any])


def show_spark_option(function: F) -> F:
    """Gives a command the argument `show_spark`."""
    return click.option(
        "--show-spark", is_flag=True, help="Show what Spark says, and what functions of Python print in its processes."
    )(function)


class SparkLog:
    """Anew for each run; emptied when it is large, as a run has no end."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def trim(self) -> None:
        if self.file.exists() and self.file.stat().st_size > _LARGEST:
            os.truncate(self.file, 0)  # whoever has it open appends, so at its new end

    def last(self) -> list[str]:
        return self.file.read_text(errors="replace").splitlines()[-_LAST_LINES:]


@contextmanager
def kept_in(file: Path, *, show: bool = False) -> Iterator[SparkLog]:
    """`show`: all stays as it is, and nothing is kept."""
    log = SparkLog(file)
    if show:
        yield log
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    before = sys.stderr
    before.flush()
    own = os.dup(2)
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)  # Spark may tell settings
    os.dup2(target, 2)
    os.close(target)
    try:
        with os.fdopen(own, "w", buffering=1, errors="backslashreplace", closefd=False) as sys.stderr:
            yield log
    finally:
        sys.stderr = before
        os.dup2(own, 2)
        os.close(own)


@contextmanager
def told_if_it_fails(log: SparkLog) -> Iterator[None]:
    """For the start: without Java's last words nobody knows why there is none."""
    try:
        yield
    except Exception:
        if log.file.exists():
            for line in log.last():
                note(f"  {line}")
        raise


@contextmanager
def named_if_it_fails(log: SparkLog, has_begun: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """For a run, which says itself why it has ended; if it has not begun, that is all."""
    try:
        yield
    except Exception:
        if log.file.exists() and has_begun():
            note(f"all that Spark said is in {log.file}")
        raise
