"""`ottla group watch`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.completing import group_names
from ottla.cli.group.names import chosen
from ottla.cli.output import aligned, cell, is_terminal, note, output_option, yaml_lines
from ottla.cli.terminal_text import one_line
from ottla.cli.times import Seconds, iso

if TYPE_CHECKING:
    from ottla.cli.group.rates import Figures

GROUPS: Final = ("GROUP", "STATE", "MEMBERS", "LAG", "READ/S", "WRITTEN/S", "CAUGHT UP IN")
PARTITIONS: Final = (
    "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "READ/S", "WRITTEN/S", "CLIENT-ID", "HOST",
)  # fmt: skip
_SHORTEST_NAME: Final = 12
_HOME, _REST_OF_LINE, _REST_OF_SCREEN, _CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@click.command("watch")
@click.argument("groups", nargs=-1, metavar="[GROUP...]", shell_complete=group_names)
@click.option(
    "-i", "--interval", type=Seconds(least=0.1), default=2.0, show_default=True, help="Seconds between looks."
)  # fmt: skip
@click.option("-n", "--count", "looks", type=click.IntRange(min=1), help="End after so many looks.")
@output_option
@cluster_options
def command(groups: tuple[str, ...], interval: float, looks: int | None, output: str | None, cluster: Cluster) -> None:
    """Watch groups until Ctrl-C: state, members, lag, rates, and when they will have caught up; all if none is named.

    Of one group, its partitions are shown too. Rates are those of the last 30 seconds; what is read is seen when it is
    committed. Elsewhere than on a terminal it prints lines: time, group, state, members, lag, read and written a
    second, seconds until it has caught up, whether it falls behind. JSON is a line for each group and look.
    """
    watch = _Watch(cluster, groups, interval, output)
    try:
        watch.run(looks)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        watch.end()


class _Watch:
    def __init__(self, cluster: Cluster, groups: tuple[str, ...], interval: float, output: str | None) -> None:
        from ottla.cli.group.rates import Rates

        self._cluster = cluster
        self._groups = groups
        self._interval = interval
        self._output = output
        self._draws = output is None and is_terminal() and os.environ.get("TERM", "dumb") != "dumb"
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
            return await progress(there, await chosen(there, self._groups), leave_out_missing=not self._groups)

        found = session.run(self._cluster, ask)
        now = time.monotonic()
        return [self._rates.add(each, now) for each in found]

    def _show(self, figures: Sequence[Figures]) -> None:
        if self._draws:
            columns = shutil.get_terminal_size().columns
            self._draw(view(figures, f", every {self._interval:g} s; Ctrl-C ends.", columns))
        elif self._output == "table":
            click.echo("\n".join((*view(figures, ""), "")))
        else:
            moment = iso(int(time.time() * 1000))
            for each in figures:
                click.echo(self._text({"time": moment, **told(each)}))
        sys.stdout.flush()

    def _text(self, row: dict[str, Any]) -> str:
        if self._output == "json":
            import json

            return json.dumps(row, ensure_ascii=False)
        if self._output == "yaml":
            return "\n".join(yaml_lines([row]))
        return "\t".join(map(cell, row.values()))

    def _complain(self, error: str) -> None:
        if self._draws:
            self._draw([f"ottla: {one_line(error)}", "Trying again; Ctrl-C ends."])
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


def view(figures: Sequence[Figures], more: str, columns: int | None = None) -> list[str]:
    """The lines of a screen; where it is too narrow, names are shortened before numbers are cut off."""
    lines = [f"{time.strftime('%H:%M:%S')}{more}", ""]
    if not figures:
        return [*lines, "There are no groups."]
    lines += _table(GROUPS, [_group_cells(each) for each in figures], columns)
    if len(figures) == 1:
        lines += ["", *_table(PARTITIONS, _partition_cells(figures[0]), columns)]
    return lines


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], columns: int | None) -> list[str]:
    cells = [header, *([one_line(text) for text in row] for row in rows)]
    lines = aligned(cells)
    excess = 0 if columns is None else max(map(len, lines)) - columns
    if excess <= 0:
        return lines
    widest = max(_SHORTEST_NAME, max(len(row[0]) for row in cells) - excess)
    short = [row[0] if len(row[0]) <= widest else f"{row[0][: widest - 1]}…" for row in cells]
    return aligned([(name, *row[1:]) for name, row in zip(short, cells, strict=True)])


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


def told(figures: Figures) -> dict[str, Any]:
    """For a program. It falls behind: it will not have caught up, as long as it goes on like that."""
    group = figures.progress.group
    seconds = figures.catches_up_in_s
    falls_behind = seconds == float("inf")
    return {
        "group": group.id,
        "state": group.state,
        "members": len(group.members),
        "lag": figures.progress.lag,
        "read_per_s": _rounded(figures.rate.read),
        "written_per_s": _rounded(figures.rate.written),
        "caught_up_in_s": None if falls_behind else _rounded(seconds),
        "falls_behind": falls_behind,
    }


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)
