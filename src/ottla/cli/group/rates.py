"""How fast groups read and how fast there is more to read, from a look now and then."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from ottla.cli.admin.group_lag import Position, Progress

WINDOW_S: Final = 30.0  # most consumers commit every five seconds: a shorter one would show nothing, then too much
Place = tuple[str, int]


class Rate(NamedTuple):
    """Records a second; None before there have been two looks."""

    read: float | None = None
    written: float | None = None


class Figures(NamedTuple):
    """One group, as it is now."""

    progress: Progress
    rate: Rate
    by_partition: Mapping[Place, Rate]

    @property
    def catches_up_in_s(self) -> float | None:
        """0 if it is at the end, infinity if it falls behind; None if that cannot be said."""
        lag = self.progress.lag
        if lag is None:
            return None
        if lag <= 0:
            return 0.0
        if self.rate.read is None or self.rate.written is None:
            return None
        gained = self.rate.read - self.rate.written
        return lag / gained if gained > 0 else float("inf")


class Rates:
    def __init__(self) -> None:
        self._looks: dict[str, deque[tuple[float, Mapping[Place, Position]]]] = {}

    def add(self, progress: Progress, at_s: float) -> Figures:
        looks = self._looks.setdefault(progress.group.id, deque())
        while len(looks) > 1 and at_s - looks[1][0] >= WINDOW_S:
            looks.popleft()
        now = {(position.topic, position.partition): position for position in progress.positions}
        first_s, first = looks[0] if looks else (at_s, now)
        looks.append((at_s, now))
        if at_s <= first_s:
            return Figures(progress, Rate(), {})
        seconds = at_s - first_s
        by_partition = {place: _rate(first.get(place), position, seconds) for place, position in now.items()}
        return Figures(progress, _total(list(by_partition.values())), by_partition)


def _rate(first: Position | None, now: Position, seconds: float) -> Rate:
    if first is None:
        return Rate()
    return Rate(_per_second(first.current, now.current, seconds), _per_second(first.end, now.end, seconds))


def _per_second(first: int | None, now: int | None, seconds: float) -> float | None:
    return None if first is None or now is None else max(0.0, (now - first) / seconds)


def _total(rates: Sequence[Rate]) -> Rate:
    read = [rate.read for rate in rates if rate.read is not None]
    written = [rate.written for rate in rates if rate.written is not None]
    return Rate(sum(read) if read else None, sum(written) if written else None)


def span_text(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds == float("inf"):
        return "never"
    if seconds < 1:
        return "now" if seconds == 0 else "1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours = round(minutes / 60)
    return f"{hours} h" if hours < 48 else f"{round(hours / 24)} d"


def rate_text(rate: float | None) -> str:
    if rate is None:
        return "-"
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.1f}"
