"""What came of a run."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from ottla.sim.incarnation import CURRENT
from ottla.sim.journal import Journal
from ottla.sim.trace import Trace

AFTER_A_VIOLATION_S = 0.5
"""What follows from a mistake only hides it."""


@dataclass(slots=True)
class Outcome:
    seed: int
    violations: list[str]
    counts: Counter[str]
    trace: Trace
    digest: str
    virtual_s: float
    timeline: str = ""
    """What led to the violations, for a person; empty if there are none."""

    def report(self) -> str:
        listed = "\n".join(f"  - {violation}" for violation in self.violations[:20])
        return f"seed {self.seed}: {len(self.violations)} violations\n{listed}"


@contextmanager
def watched_log(
    journal: Journal,
    count: Mapping[str, str] = MappingProxyType({}),
    note: Callable[[str, str, str], None] = lambda host, event, details: None,
) -> Iterator[None]:
    """The nodes' own log stays quiet, but for exceptions that are no disk's: those are mistakes.

    `count` has messages, before anything is put into them, and what they are counted as; `note` is told of those, with
    the host that they are from.
    """

    class Watcher(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            error = record.exc_info[1] if record.exc_info else None
            if error is not None and not isinstance(error, OSError):
                journal.complain(f"the node logged {record.getMessage()}: {error!r}")
            elif (name := count.get(str(record.msg))) is not None:
                journal.counts[name] += 1
                note(living.host if (living := CURRENT.get()) is not None else "", name, record.getMessage())

    logger, watcher = logging.getLogger("ottla"), Watcher()
    propagates, level = logger.propagate, logger.level
    logger.propagate = False
    logger.setLevel(logging.INFO if count else logging.ERROR)
    logger.addHandler(watcher)
    try:
        yield
    finally:
        logger.removeHandler(watcher)
        logger.propagate = propagates
        logger.setLevel(level)
