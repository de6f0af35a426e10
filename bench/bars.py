"""The bars: what Ottla must reach, each against a figure of Apache Kafka from the same run or as a plain limit."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

Row = Mapping[str, Any]


class Direction(Enum):
    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Bar:
    """`limit` is a ratio to Kafka's figure, or a plain value in `unit` where `absolute`. No limit: for information."""

    name: str
    load: str
    figure: str  # a path into a row, e.g. latency_us.p50
    unit: str
    direction: Direction = Direction.AT_LEAST
    limit: float | None = None
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    bar: Bar
    kafka: float | None
    ottla: float | None
    ratio: float | None

    @property
    def word(self) -> str:
        measured = self.ottla if self.bar.absolute else self.ratio
        if self.bar.limit is None:
            return "info"
        if measured is None:
            return "not measured"
        if self.bar.direction is Direction.AT_LEAST:
            return "PASS" if measured >= self.bar.limit else "MISS"
        return "PASS" if measured <= self.bar.limit else "MISS"


def _both(name: str, figure: str, unit: str, direction: Direction, limit: float | None, label: str = "") -> list[Bar]:
    return [
        Bar(f"{name}{suffix}{label}", f"{name}{suffix}", figure, unit, direction, limit)
        for suffix in ("", ", idempotent")
    ]


def _bars() -> Iterable[Bar]:
    least, most = Direction.AT_LEAST, Direction.AT_MOST
    yield from _both("produce 100 B", "rate", "records/s", least, 1.3)
    yield from _both("produce 1 KB", "mb_per_second", "MB/s", least, 1.2)
    yield Bar("consume 1 KB", "consume 1 KB", "mb_per_second", "MB/s", least, 1.0)
    yield from _both("one record a request, 1 connection", "rate", "records/s", least, 4.0)
    yield from _both("one record a request, 8 connections", "rate", "records/s", least, 1.5)
    yield from _both("one record a request, 64 connections", "rate", "records/s", least, 1.0)
    yield from _both("one in flight", "rate", "records/s", least, 1.15)
    yield from _both("latency at 1,000/s", "latency_us.p50", "us", most, 0.6, ": p50")
    yield from _both("latency at 1,000/s", "latency_us.p99", "us", most, 1.0, ": p99")
    yield from _both("latency at 1,000/s", "latency_us.p99.9", "us", most, None, ": p99.9")
    yield from _both("produce 100 B", "node_cpu_seconds_per_million", "s/M", most, 0.7, ": CPU a million records")
    yield from _both("produce 1 KB", "node_cpu_seconds_per_gb", "s/GB", most, 0.7, ": CPU a GB")
    yield Bar("consume 1 KB: CPU a GB", "consume 1 KB", "node_cpu_seconds_per_gb", "s/GB", most, 0.7)
    for load in (
        "one record a request, 1 connection",
        "one record a request, 64 connections",
        "one in flight",
        "latency at 1,000/s",
    ):
        yield from _both(load, "node_cpu_seconds_per_million", "s/M", most, None, ": CPU a million records")
    yield Bar("produce 1 KB, rolls and retention", "produce 1 KB, rolls and retention", "mb_per_second", "MB/s")
    yield Bar("start to first acknowledged record", "start", "seconds", "s", most, 0.25)
    yield Bar("memory idle", "memory idle", "rss", "MB", most, 80.0, absolute=True)
    yield Bar("memory after the load", "memory after the load", "rss", "MB", most, 120.0, absolute=True)
    yield Bar("loop lag p99.9, worst load", "loop lag", "p99.9", "ms", most, 20.0, absolute=True)
    yield Bar("recovery of 1 GB, 1 partition", "recovery, 1 partition", "seconds", "s", most, 1.0)
    yield Bar("recovery of 1 GB, 4 partitions", "recovery, 4 partitions", "seconds", "s", most, 1.0)
    yield Bar("recovery, session timeout as by default", "recovery, default session", "seconds", "s", most)


BARS: tuple[Bar, ...] = tuple(_bars())


def value_at(row: Row, path: str) -> float | None:
    """The figure at a path; names may hold dots themselves (p99.9)."""
    if path in row:
        return float(row[path])
    head, _, rest = path.partition(".")
    inner = row.get(head)
    return value_at(inner, rest) if rest and isinstance(inner, Mapping) else None


def judge(rows: Sequence[Row], bar: Bar) -> Verdict:
    """Medians of each side, and the median of the rounds' ratios: a round's two runs are neighbours in time."""
    figures: dict[str, dict[int, float]] = {"kafka": {}, "ottla": {}}
    for row in rows:
        if row["load"] == bar.load and (value := value_at(row, bar.figure)) is not None:
            figures[row["side"]][row["round"]] = value
    kafka, ottla = figures["kafka"], figures["ottla"]
    ratios = [ottla[number] / kafka[number] for number in kafka if number in ottla and kafka[number]]
    return Verdict(
        bar,
        statistics.median(kafka.values()) if kafka else None,
        statistics.median(ottla.values()) if ottla else None,
        statistics.median(ratios) if ratios else None,
    )


def worst_loop_lag(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One row for the bar: of each load the median of its rounds, of these the worst."""
    by_load: dict[str, list[Mapping[str, float]]] = {}
    for row in rows:
        if "loop_lag_ms" in row:
            by_load.setdefault(row["load"], []).append(row["loop_lag_ms"])
    if not by_load:
        return []
    lags = {load: statistics.median(lag["p99.9"] for lag in found) for load, found in by_load.items()}
    worst = max(lags, key=lambda load: lags[load])
    return [{"load": "loop lag", "side": "ottla", "round": 0, "p99.9": lags[worst], "worst": worst, "by_load": lags}]
