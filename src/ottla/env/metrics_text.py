"""Metrics as text, in the format that Prometheus and everything that reads like it understands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Final

from ottla.env.breath import Breath
from ottla.env.metrics import Gathered
from ottla.env.ports import Clock

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ROWS_A_CHUNK: Final = 500


async def as_text(gathered: Iterable[Gathered], clock: Clock) -> AsyncIterator[bytes]:
    """Chunks of some tens of kilobytes; others get the loop in between."""
    breath = Breath(clock)
    lines: list[str] = []
    for family, rows in gathered:
        await breath.take()
        lines.append(f"# HELP {family.name} {_one_line(family.help)}\n# TYPE {family.name} {family.kind.value}\n")
        for row in rows:
            if row is None:
                await breath.take()
                continue
            suffix, value = row
            lines.append(f"{family.name}{suffix} {value}\n")
            if len(lines) >= _ROWS_A_CHUNK:
                yield "".join(lines).encode()
                lines.clear()
                await breath.take()
    yield "".join(lines).encode()


def _one_line(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
