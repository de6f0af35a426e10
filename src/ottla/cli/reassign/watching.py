"""Watching moves until they are done, and what is left to do then."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.cluster_options import Cluster
from ottla.cli.output import note
from ottla.cli.reassign.copying import Copying, Look, line

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.model.names import TopicPartition

PATIENCE: Final = 20
"""Looks in a row that may fail: a node may be restarting."""
PLAIN_EVERY_S: Final = 5.0


class Watching:
    def __init__(self, cluster: Cluster, only: Iterable[TopicPartition] | None, interval_s: float) -> None:
        self._cluster = cluster
        self._copying = Copying(only)
        self._interval_s = interval_s
        self._draws = sys.stderr.isatty()
        self._width = 0
        self._told_s = 0.0
        self.last: Look | None = None

    def run(self) -> Look:
        """Returns when nothing is left; the last look at which something was."""
        failed = 0
        while True:
            try:
                look = self._look()
                failed = 0
            except Exception as error:
                from ottla.model.errors import OttlaError

                failed += 1
                if not isinstance(error, OttlaError) or self.last is None or failed > PATIENCE:
                    self._clear()
                    raise
                time.sleep(self._interval_s)
                continue
            self.last = look
            if not look.partitions:
                self._clear()
                return look
            self._show(look)
            time.sleep(self._interval_s)

    def _look(self) -> Look:
        """A connection of its own each time: leaders move, and nodes come back elsewhere."""
        from ottla.cli.admin import session

        return session.run(self._cluster, self._copying.look)

    def _show(self, look: Look) -> None:
        now = time.monotonic()
        text = line(look, self._copying.rate(look, now))
        if self._draws:
            text = text[: max(20, _columns() - 1)]
            sys.stderr.write(f"\r{text.ljust(self._width)}")
            sys.stderr.flush()
            self._width = len(text)
        elif now - self._told_s >= PLAIN_EVERY_S:
            self._told_s = now
            note(text)

    def _clear(self) -> None:
        if self._draws and self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            sys.stderr.flush()
            self._width = 0


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def watch_to_the_end(
    cluster: Cluster, only: Sequence[TopicPartition] | None, interval_s: float, *, keep_throttles: bool
) -> Look:
    """Until nothing is left to move; then throttles go. Ctrl-C leaves both as they are, and says so."""
    watching = Watching(cluster, only, interval_s)
    try:
        look = watching.run()
    except KeyboardInterrupt:
        click.echo(err=True)
        note(
            "The cluster goes on moving, and throttles stay: `ottla reassign watch` looks again, and removes them then."
        )
        raise
    if not keep_throttles:
        unthrottle(cluster, None if only is None else {place.topic for place in only})
    return look


def unthrottle(cluster: Cluster, names: Iterable[str] | None) -> None:
    """Of these topics, or of all; but not while something else is still being moved."""
    from ottla.cli.admin import reassignments, session, throttles, topics

    async def ask(there: Session) -> bool | None:
        if await reassignments.moves(there):
            return None
        found = [topic.name for topic in await topics.topics(there)]
        return await throttles.remove_throttles(there, [name for name in found if names is None or name in names])

    removed = session.run(cluster, ask)
    if removed:
        note("Throttles removed.")
    elif removed is None:
        note("Other partitions are still being moved, so throttles stay.")
