"""What is told about connections: how many there are on each listener, how many came and went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ottla.env.metrics import Family, Gathered, Kind, labels

if TYPE_CHECKING:
    from ottla.wire.connection_settings import ConnectionSettings

_LABELS: Final = ("listener", "networkprocessor")
OPEN: Final = Family(
    "kafka_server_socket_server_metrics_connection_count", Kind.GAUGE, "Connections now.", _LABELS
)  # fmt: skip
CREATED: Final = Family(
    "kafka_server_socket_server_metrics_connection_creation_total", Kind.COUNTER, "Connections accepted.", _LABELS
)
CLOSED: Final = Family(
    "kafka_server_socket_server_metrics_connection_close_total", Kind.COUNTER, "Connections that ended.", _LABELS
)
MEMORY: Final = Family(
    "ottla_connection_memory_bytes",
    Kind.GAUGE,
    "Memory of requests that are being received or checked, and of answers that clients do not read.",
)
BUDGET: Final = Family("ottla_connection_memory_limit_bytes", Kind.GAUGE, "From here on nothing more is received.")
REFUSED: Final = Family(
    "ottla_connections_refused_total", Kind.COUNTER, "Connections closed at once (max.connections.per.ip)."
)
IDLE: Final = Family(
    "kafka_server_socket_server_metrics_expired_connections_killed_count",
    Kind.GAUGE,
    "Connections closed because they were idle (connections.max.idle.ms).",
)


class ConnectionMetrics:
    def __init__(self, roles: Sequence[ConnectionSettings]) -> None:
        """The settings of each role; they share one pool."""
        self._roles = roles

    def collect(self) -> Iterator[Gathered]:
        roles = self._roles
        now = dict.fromkeys((name for role in roles for name in role.opened), 0)
        opened = {name: count for role in roles for name, count in role.opened.items()}
        for role in roles:
            for connection in role.connections:
                now[connection.listener] += 1
        rows = {listener: labels(listener=listener, networkprocessor=0) for listener in now}
        yield Gathered(OPEN, [(rows[listener], count) for listener, count in now.items()])
        yield Gathered(CREATED, [(rows[listener], count) for listener, count in opened.items()])
        yield Gathered(CLOSED, [(rows[name], count - now[name]) for name, count in opened.items()])
        yield Gathered(REFUSED, [("", sum(role.limits.refused for role in roles))])
        yield Gathered(IDLE, [("", sum(role.closed_idle for role in roles))])
        for role in roles[:1]:
            yield Gathered(MEMORY, [("", role.pool.lent)])
            yield Gathered(BUDGET, [("", role.pool.budget)])
