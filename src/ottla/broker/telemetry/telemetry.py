"""A node's part in KIP-714: subscriptions as the metadata has them, clients, and what they pushed.

Kafka has a plug-in for what clients push. Here it goes where a node's own metrics go, so it is offered to clients when
there is a listener for those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.telemetry.otlp import Point, read_pushed
from ottla.broker.telemetry.received import Received
from ottla.broker.telemetry.subscriptions import Subscription, Subscriptions, Wanted
from ottla.env.metrics import Family, Gathered, Kind
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.model.config.broker import parse_values
from ottla.model.config.client_metrics import match_patterns
from ottla.model.config.tables.client_metrics import CLIENT_METRICS_CONFIGS
from ottla.model.errors import ErrorCode
from ottla.record.records import BatchTooLarge

if TYPE_CHECKING:
    from ottla.broker.context import Context
    from ottla.broker.node import Node

INLINE_BYTES: Final = 8 * 1024  # decompressed; more is read in another process
_EXPANSION: Final = 16  # how much longer than telemetry.max.bytes metrics may be when decompressed
_EXPIRY_CHECK_MS: Final = 30_000

CLIENTS: Final = Family("kafka_server_client_metrics_instance_count", Kind.GAUGE, "Clients that push, or may.")
UNKNOWN: Final = Family(
    "kafka_server_client_metrics_unknown_subscription_request_count",
    Kind.GAUGE,
    "Pushes after what was wanted had changed.",
)
THROTTLED: Final = Family(
    "kafka_server_client_metrics_throttle_count", Kind.GAUGE, "Pushes and questions that came too early."
)
PUSHES: Final = Family("kafka_server_client_metrics_plugin_export_count", Kind.GAUGE, "Pushes that were taken.")
LEFT_OUT: Final = Family("ottla_telemetry_left_out_total", Kind.COUNTER, "Numbers for which there was no room.")


class Telemetry:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.subscriptions = Subscriptions(node.env.random.uuid)
        self.received = Received()

    @property
    def is_offered(self) -> bool:
        return self._node.config.metrics_listener is not None

    def start(self) -> None:
        self._node.timers.after(_EXPIRY_CHECK_MS, self._expire)

    def _expire(self) -> None:
        now_ms = self._node.env.clock.now_ms()
        self.subscriptions.expire(now_ms)
        self.received.expire(now_ms)
        self.start()

    async def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if any(resource.type == ResourceType.CLIENT_METRICS for resource in delta.changed_configs):
            self.subscriptions.set(
                _subscription(configs)
                for resource, configs in image.configs.items()
                if resource.type == ResourceType.CLIENT_METRICS and configs
            )

    def ask(self, context: Context, request: Any) -> Wanted | ErrorCode:
        now_ms = self._node.env.clock.now_ms()
        return self.subscriptions.ask(request.client_instance_id, _facts(context), context.connection, now_ms)

    async def push(self, context: Context, request: Any) -> ErrorCode:
        now_ms, max_size = self._node.env.clock.now_ms(), self._node.config.get_int("telemetry.max.bytes")
        code = self.subscriptions.push(
            request.client_instance_id,
            request.subscription_id,
            _facts(context),
            context.connection,
            now_ms,
            is_ending=request.terminating,
            compression=request.compression_type,
            size=len(request.metrics),
            max_size=max_size,
        )
        if code is not ErrorCode.none or not request.metrics or not self.is_offered:
            return code
        try:
            points = await self._read(request.metrics, request.compression_type, _EXPANSION * max_size)
        except (ValueError, BatchTooLarge):
            self.subscriptions.unreadable(request.client_instance_id)
            return ErrorCode.invalid_record
        expires_at = self.subscriptions.expires_at(request.client_instance_id, now_ms)
        self.received.take(request.client_instance_id, context.header.client_id or "", points, expires_at)
        return ErrorCode.none

    async def _read(self, payload: bytes, compression: int, limit: int) -> list[Point]:
        with suppress(BatchTooLarge):
            return read_pushed(payload, compression, INLINE_BYTES)
        return await self._node.env.executor.compute(read_pushed, payload, compression, limit)

    def collect(self) -> Iterator[Gathered]:
        if not self.is_offered:
            return
        subscriptions, received = self.subscriptions, self.received
        yield Gathered(CLIENTS, [("", len(subscriptions))])
        yield Gathered(UNKNOWN, [("", subscriptions.unknown_subscriptions)])
        yield Gathered(THROTTLED, [("", subscriptions.throttled)])
        yield Gathered(PUSHES, [("", received.pushes)])
        yield Gathered(LEFT_OUT, [("", received.left_out)])
        yield from received.collect()


def _facts(context: Context) -> dict[str, str | None]:
    """What a subscription can be matched with."""
    address, _, port = context.connection.peer.rpartition(":")
    name, version = context.connection.software
    return {
        "client_id": context.header.client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": address,
        "client_source_port": port,
    }


def _subscription(configs: Mapping[str, str]) -> Subscription:
    """Out of configs that the controller has checked."""
    values = parse_values(configs, CLIENT_METRICS_CONFIGS)
    metrics, interval_ms, match = values["metrics"], values["interval.ms"], values["match"]
    assert isinstance(metrics, tuple) and isinstance(interval_ms, int) and isinstance(match, tuple)
    return Subscription(metrics, interval_ms, match_patterns(match))
