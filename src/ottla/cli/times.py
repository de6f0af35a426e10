"""Moments as people write them: 2026-11-15T12:00, 1763200000, 1763200000000, 5m ago, now."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Final

import click

_UNITS: Final = {
    "ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "hour": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "w": 604_800_000, "week": 604_800_000,
}  # fmt: skip
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)")
_ISO_SPAN: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:[.,]\d*)?)S)?)?", re.IGNORECASE
)
_LONGEST_S: Final = 1_000_000_000
_FIRST_MS: Final = 100_000_000_000  # as seconds that is the year 5138; Kafka was not there in 1973


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970; ValueError if it is none of the forms. Without a zone it is local time."""
    text = text.strip()
    if text == "now":
        return now_ms
    if re.fullmatch(r"[0-9]+", text):
        number = int(text)
        return number if number >= _FIRST_MS else number * 1000
    if text.endswith("ago"):
        return now_ms - _span_ms(text.removesuffix("ago"))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: write 2026-11-15T12:00 (+02:00 or Z for a zone), seconds or milliseconds since "
            "1970, or `5m ago`"
        ) from None
    return round(moment.timestamp() * 1000)


def _span_ms(text: str) -> int:
    found = _SPAN.findall(text)
    units = {unit: _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s")) for _, unit in found}
    if not found or None in units.values() or _SPAN.sub("", text).strip():
        raise ValueError(f"{text.strip()!r} is not a span of time: write 90s, 5m, 2h, 3d or 1h 30m")
    return round(sum(float(number) * (units[unit] or 0) for number, unit in found))


def parse_span(text: str) -> int:
    """Milliseconds: 90s, 1h 30m, or ISO 8601 as Kafka's tools want it, PT1H30M. ValueError if it is neither."""
    match = _ISO_SPAN.fullmatch(text.strip())
    if match is None or not any(match.groups()[1:]):
        return _span_ms(text)
    sign, *parts = match.groups()
    units = (86_400_000, 3_600_000, 60_000, 1000)
    total = sum(float(part.replace(",", ".")) * unit for part, unit in zip(parts, units, strict=True) if part)
    return round(-total if sign == "-" else total)


def iso(timestamp_ms: int) -> str:
    """With milliseconds and zone, in UTC: the same everywhere, and sortable."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):  # beyond the calendar
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Seconds(click.FloatRange):
    """Some time that something may take: not for ever, and no more than a clock of the system can count."""

    def __init__(self, least: float | None = None) -> None:
        super().__init__(min=least or 0, min_open=least is None)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if not seconds <= _LONGEST_S:  # nor is what is no number
            self.fail(f"{value} is no number of seconds up to {_LONGEST_S:,}", param, ctx)
        return seconds


class Time(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        import time

        if isinstance(value, int):
            return value
        try:
            return parse_time(str(value), int(time.time() * 1000))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Span(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """In milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_span(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
