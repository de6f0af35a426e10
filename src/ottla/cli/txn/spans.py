"""Spans of time as options, and as people read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from ottla.cli.times import parse_span


class SpanType(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """Milliseconds, from 90s, 5m or 1h 30m."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_span(str(value))
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)


def moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def span(duration_ms: int) -> str:
    """Roughly: 5 s, 12 min, 3 h, 2 d."""
    seconds = max(duration_ms, 0) / 1000
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
