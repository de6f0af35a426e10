"""How a query is doing, from Spark's progress events: rates, lag, batch time, state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class Progress(NamedTuple):
    view: str
    batch: int
    rows: int
    rows_per_second: float
    batch_ms: int
    behind: int | None
    """Records of topics that are there and not yet read; None where sources do not tell."""
    state_rows: int
    state_bytes: int

    def line(self) -> str:
        parts = [
            f"{self.view}: batch {self.batch}",
            f"{self.rows:,} rows",
            f"{self.rows_per_second:,.0f}/s",
            f"{self.batch_ms:,} ms",
        ]
        if self.behind is not None:
            parts.append(f"{self.behind:,} behind")
        if self.state_rows or self.state_bytes:
            parts.append(f"state {self.state_rows:,} rows, {self.state_bytes / 1e6:,.1f} MB")
        return ", ".join(parts)


def of_spark(view: str, told: Mapping[str, Any]) -> Progress:
    operators = told.get("stateOperators") or []
    return Progress(
        view=view,
        batch=int(told["batchId"]),
        rows=int(told.get("numInputRows") or 0),
        rows_per_second=float(told.get("processedRowsPerSecond") or 0.0),
        batch_ms=int((told.get("durationMs") or {}).get("triggerExecution", 0)),
        behind=_behind(told.get("sources") or []),
        state_rows=sum(int(one.get("numRowsTotal") or 0) for one in operators),
        state_bytes=sum(int(one.get("memoryUsedBytes") or 0) for one in operators),
    )


def _behind(sources: list[Mapping[str, Any]]) -> int | None:
    found: int | None = None
    for source in sources:
        end, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
        if end and latest:
            behind = sum(max(offset - end.get(place, offset), 0) for place, offset in latest.items())
            found = behind + (found or 0)
    return found


def _offsets(told: Any) -> dict[tuple[str, str], int]:
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError:
            return {}
    if not isinstance(told, Mapping):
        return {}
    return {
        (topic, number): offset
        for topic, numbers in told.items()
        if isinstance(numbers, Mapping)
        for number, offset in numbers.items()
        if isinstance(offset, int)
    }
