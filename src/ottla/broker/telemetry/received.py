"""The numbers that clients pushed last, kept for those who watch the node; within bounds, whatever clients send."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final
from uuid import UUID

from ottla.broker.telemetry.otlp import Point
from ottla.env.metrics import Family, Gathered, Kind, labels
from ottla.metadata.meta_properties import uuid_text

MAX_OF_A_CLIENT: Final = 500
MAX_IN_ALL: Final = 50_000
_PREFIX: Final = "org.apache.kafka."
_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]+")
_RESERVED: Final = ("le", "quantile")
_HELP: Final = "Pushed by clients (KIP-714)."

Key = tuple[str, Kind, str]  # family, kind, labels


class Received:
    def __init__(self) -> None:
        self._clients: dict[UUID, dict[Key, float]] = {}
        self._expires: dict[UUID, int] = {}
        self._count = 0
        self.pushes = 0
        self.left_out = 0  # numbers for which there was no room

    def take(self, instance_id: UUID, client_id: str, points: Iterable[Point], expires_at: int) -> None:
        self.pushes += 1
        self._expires[instance_id] = expires_at
        series = self._clients.setdefault(instance_id, {})
        fixed = {"client_id": client_id, "client_instance_id": uuid_text(instance_id)}
        for point in points:
            key = _key(point, fixed)
            if key not in series:
                if len(series) >= MAX_OF_A_CLIENT or self._count >= MAX_IN_ALL:
                    self.left_out += 1
                    continue
                self._count += 1
                series[key] = 0.0
            series[key] = series[key] + point.value if point.is_delta else point.value

    def expire(self, now_ms: int) -> None:
        for instance_id in [key for key, at in self._expires.items() if at <= now_ms]:
            del self._expires[instance_id]
            self._count -= len(self._clients.pop(instance_id))

    def collect(self) -> Iterator[Gathered]:
        families: dict[tuple[str, Kind], list[tuple[str, float]]] = {}
        for series in self._clients.values():
            for (name, kind, text), value in series.items():
                families.setdefault((name, kind), []).append((text, value))
        for (name, kind), rows in families.items():
            yield Gathered(Family(name, kind, _HELP), rows)


def _key(point: Point, fixed: dict[str, str]) -> Key:
    """org.apache.kafka.producer.record.send.rate becomes ottla_client_producer_record_send_rate."""
    name = "ottla_client_" + _plain(point.name.removeprefix(_PREFIX))
    if point.is_counter and not name.endswith("_total"):
        name += "_total"
    given = {_label(key): value for key, value in point.attributes if key}
    kind = Kind.COUNTER if point.is_counter else Kind.GAUGE
    if kind is Kind.GAUGE and name.endswith("_total"):
        name += "_level"  # a name is of one kind only, whatever clients say
    return name, kind, labels(**fixed | {key: value for key, value in given.items() if key not in fixed})


def _label(key: str) -> str:
    """Some names mean something to Prometheus."""
    plain = _plain(key)
    return f"client_{plain}" if plain.startswith("__") or plain in _RESERVED else plain


def _plain(text: str) -> str:
    plain = _NOT_IN_A_NAME.sub("_", text)
    return f"_{plain}" if plain[:1].isdigit() or not plain else plain
