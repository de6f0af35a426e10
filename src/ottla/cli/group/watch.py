"""`ottla group watch`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster import Cluster, cluster_options
from ottla.cli.completing import group_names
from ottla.cli.group.names import chosen
from ottla.cli.output import aligned, is_terminal, note
from ottla.cli.times import iso

if TYPE_CHECKING:
    from ottla.cli.group.rates import Figures

GROUPS: Final = ("GROUP", "STATE", "MEMBERS", "LAG", "READ/S", "WRITTEN/S", "CAUGHT UP IN")
PARTITIONS: Final = (
    "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "READ/S", "WRITTEN/S", "CLIENT-ID", "HOST",
)  # fmt: skip
_HOME, _REST_OF_LINE, _REST_OF_SCREEN, _CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@click.command("watch")
@click.argument("groups", nargs=-1, metavar="[GROUP...]", shell_complete=group_names)
@click.option(
    "-i", "--interval", type=click.FloatRange(min=0.1), default=2.0, show_default=True, help="Seconds between looks."
)  # fmt: skip
@click.option("-n", "--count", "looks", type=click.IntRange(min=1), help="End after so many looks.")
@click.option("-J", "--json", "as_json", is_flag=True, help="A line of JSON for each group and look.")
@cluster_options
def command(groups: tuple[str, ...], interval: float, looks: int | None, as_json: bool, cluster: Cluster) -> None:
    """Watch groups until Ctrl-C: state, members, lag, rates, and when they will have caught up; all if none is named.

    Of one group, its partitions are shown too. Rates are those of the last 30 seconds; what is read is seen when it is
    committed. Elsewhere than on a terminal it prints lines: time, group, state, members, lag, read and written a
    second, seconds until it has caught up.
    """
    watch = _Watch(cluster, groups, interval, as_json)
    try:
        watch.run(looks)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        watch.end()


class _Watch:
    def __init__(self, cluster: Cluster, groups: tuple[str, ...], interval: float, as_json: bool) -> None:
        from ottla.cli.group.rates import Rates

        self._cluster = cluster
        self._groups = groups
        self._interval = interval
        self._as_json = as_json
        self._draws = is_terminal() and not as_json and os.environ.get("TERM", "dumb") != "dumb"
        self._rates = Rates()
        self._drawn = False

    def run(self, looks: int | None) -> None:
        """What goes wrong after the first look is told, and looked at again: a node may be restarting."""
        from ottla.model.errors import OttlaError

        done = 0
        due = time.monotonic()
        while True:
            try:
                self._show(self._look())
            except OttlaError as error:
                if not done:
                    raise
                self._complain(str(error))
            done += 1
            if done == looks:
                return
            due = max(due + self._interval, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        if self._drawn:
            sys.stdout.write(_SHOW_CURSOR)
            sys.stdout.flush()

    def _look(self) -> list[Figures]:
        """A connection of its own each time: coordinators may move, and nodes come back elsewhere."""
        from ottla.cli.admin import session
        from ottla.cli.admin.group_lag import Progress, progress

        async def ask(there: session.Session) -> list[Progress]:
            return await progress(there, await chosen(there, self._groups))

        found = session.run(self._cluster, ask)
        now = time.monotonic()
        return [self._rates.add(each, now) for each in found]

    def _show(self, figures: Sequence[Figures]) -> None:
        if self._draws:
            self._draw(view(figures, self._interval))
            return
        moment = iso(int(time.time() * 1000))
        for each in figures:
            if self._as_json:
                import json

                click.echo(json.dumps({"time": moment, **told(each)}, ensure_ascii=False))
            else:
                click.echo("\t".join((moment, *_line(each))))
        sys.stdout.flush()

    def _complain(self, error: str) -> None:
        if self._draws:
            self._draw([f"ottla: {error}", "Trying again; Ctrl-C ends."])
        else:
            note(f"ottla: {error}")

    def _draw(self, lines: Sequence[str]) -> None:
        columns, rows = shutil.get_terminal_size()
        if len(lines) > rows - 1:
            lines = [*lines[: rows - 2], f"... and {len(lines) - rows + 2} more lines"]
        start = _HOME if self._drawn else _HIDE_CURSOR + _CLEAR + _HOME
        self._drawn = True
        body = "".join(f"{line[:columns]}{_REST_OF_LINE}\n" for line in lines)
        sys.stdout.write(f"{start}{body}{_REST_OF_SCREEN}")
        sys.stdout.flush()


def view(figures: Sequence[Figures], interval: float) -> list[str]:
    """The lines of a screen."""
    lines = [f"{time.strftime('%H:%M:%S')}, every {interval:g} s; Ctrl-C ends.", ""]
    if not figures:
        return [*lines, "There are no groups."]
    lines += aligned([GROUPS, *(_group_cells(each) for each in figures)])
    if len(figures) == 1:
        lines += ["", *aligned([PARTITIONS, *_partition_cells(figures[0])])]
    return lines


def _group_cells(figures: Figures) -> tuple[str, ...]:
    from ottla.cli.group.rates import rate_text, span_text

    group = figures.progress.group
    return (
        group.id,
        group.state,
        str(len(group.members)),
        _number(figures.progress.lag),
        rate_text(figures.rate.read),
        rate_text(figures.rate.written),
        span_text(figures.catches_up_in_s),
    )


def _partition_cells(figures: Figures) -> list[tuple[str, ...]]:
    from ottla.cli.group.rates import Rate, rate_text

    rows: list[tuple[str, ...]] = []
    for position in figures.progress.positions:
        rate = figures.by_partition.get((position.topic, position.partition), Rate())
        member = position.member
        rows.append(
            (
                position.topic, str(position.partition), _number(position.current), _number(position.end),
                _number(position.lag), rate_text(rate.read), rate_text(rate.written),
                "-" if member is None else member.client_id, "-" if member is None else member.host,
            )
        )  # fmt: skip
    return rows


def _number(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _line(figures: Figures) -> tuple[str, ...]:
    """For a program: numbers without commas, `-` for what is not known, `inf` for never."""
    values = list(told(figures).values())
    return tuple("-" if value is None else f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def told(figures: Figures) -> dict[str, Any]:
    group = figures.progress.group
    return {
        "group": group.id,
        "state": group.state,
        "members": len(group.members),
        "lag": figures.progress.lag,
        "read_per_s": _rounded(figures.rate.read),
        "written_per_s": _rounded(figures.rate.written),
        "caught_up_in_s": _rounded(figures.catches_up_in_s),
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)
