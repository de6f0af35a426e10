"""Which client is asked for which metrics, how often, and whether it keeps to that (KIP-714). Pure: no clock, no I/O.

A client first asks what is wanted of it (`ask`), then pushes at the interval that it was told (`push`). Both are
refused when they come too early. A client is known by an instance id, which it is given with its first question, and
what it was told by a subscription id: when subscriptions change, so do the ids, and the client has to ask again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from ottla.metadata.meta_properties import uuid_text
from ottla.model.config.client_metrics import Pattern
from ottla.model.errors import ErrorCode

DEFAULT_INTERVAL_MS: Final = 5 * 60_000
ALL_METRICS: Final = "*"
COMPRESSIONS: Final = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy: the best first
MAX_CLIENTS: Final = 16_384
_KNOWN_COMPRESSIONS: Final = range(5)
_KEPT_MS: Final = 60_000
_RESERVED: Final = frozenset((UUID(int=0), UUID(int=1)))
_NEVER: Final = -(1 << 62)
# After these a client has to ask what is wanted, however early that is.
_ASK_AGAIN: Final = (ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type)


class Subscription(NamedTuple):
    metrics: tuple[str, ...]  # beginnings of names
    interval_ms: int
    match: Mapping[str, Pattern]

    def is_for(self, client: Mapping[str, str | None]) -> bool:
        return all(
            (value := client.get(name)) is not None and pattern.fullmatch(value) for name, pattern in self.match.items()
        )


class Wanted(NamedTuple):
    """What a client is told."""

    instance_id: UUID
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class Client:
    __slots__ = (
        "asked_at", "connection", "facts", "generation", "is_ending", "last_error", "pushed_at", "seen_at", "wanted",
    )  # fmt: skip

    def __init__(self, facts: Mapping[str, str | None], connection: Hashable) -> None:
        self.facts = facts
        self.connection = connection
        self.generation = -1
        self.asked_at = self.pushed_at = self.seen_at = _NEVER
        self.is_ending = False
        self.last_error = ErrorCode.none

    wanted: Wanted

    @property
    def expires_at(self) -> int:
        return self.seen_at + max(_KEPT_MS, 3 * self.wanted.interval_ms)


class Subscriptions:
    """All clients that have asked or pushed lately, the longest unseen first."""

    def __init__(self, new_id: Callable[[], UUID]) -> None:
        self._new_id = new_id
        self._subscriptions: tuple[Subscription, ...] = ()
        self._generation = 0
        self._clients: OrderedDict[UUID, Client] = OrderedDict()
        self._by_connection: dict[Hashable, UUID] = {}
        self.unknown_subscriptions = 0
        self.throttled = 0

    def __len__(self) -> int:
        return len(self._clients)

    def set(self, subscriptions: Iterable[Subscription]) -> None:
        """All there are, from now on."""
        self._subscriptions = tuple(subscriptions)
        self._generation += 1

    # -- clients

    def ask(
        self, instance_id: UUID | None, facts: Mapping[str, str | None], connection: Hashable, now_ms: int
    ) -> Wanted | ErrorCode:
        """A client asks what is wanted; again only after the interval, or when that has changed."""
        if instance_id is None or instance_id == UUID(int=0):
            instance_id = self._new_id()
            while instance_id in self._clients:
                instance_id = self._new_id()
        client = self._seen(instance_id, facts, connection, now_ms)
        if now_ms - max(client.asked_at, client.pushed_at) >= client.wanted.interval_ms:
            client.asked_at = now_ms
        elif client.last_error not in _ASK_AGAIN:
            self.throttled += 1
            return ErrorCode.throttling_quota_exceeded
        client.last_error = ErrorCode.none
        return client.wanted

    def push(
        self,
        instance_id: UUID | None,
        subscription_id: int,
        facts: Mapping[str, str | None],
        connection: Hashable,
        now_ms: int,
        *,
        is_ending: bool,
        compression: int,
        size: int,
        max_size: int,
    ) -> ErrorCode:
        """Whether what a client pushed is to be taken. The last push of a client may come at any time."""
        if instance_id is None or instance_id in _RESERVED:
            return ErrorCode.invalid_request
        client = self._seen(instance_id, facts, connection, now_ms)
        client.last_error = self._check(client, subscription_id, now_ms, is_ending, compression, size > max_size)
        client.is_ending = is_ending
        return client.last_error

    def unreadable(self, instance_id: UUID) -> None:
        """What was taken turned out not to be metrics."""
        if (client := self._clients.get(instance_id)) is not None:
            client.last_error = ErrorCode.invalid_record

    def _check(
        self, client: Client, subscription_id: int, now_ms: int, is_ending: bool, compression: int, is_too_large: bool
    ) -> ErrorCode:
        if client.is_ending:
            return ErrorCode.invalid_request
        if not self._is_time(client, now_ms) and not is_ending:
            self.throttled += 1
            return ErrorCode.throttling_quota_exceeded
        if subscription_id != client.wanted.subscription_id:
            self.unknown_subscriptions += 1
            return ErrorCode.unknown_subscription_id
        if compression not in _KNOWN_COMPRESSIONS:
            return ErrorCode.unsupported_compression_type
        return ErrorCode.telemetry_too_large if is_too_large else ErrorCode.none

    def _is_time(self, client: Client, now_ms: int) -> bool:
        """The first push after a question comes when the client likes: it waits for a random part of the interval."""
        early = client.asked_at <= client.pushed_at and now_ms - client.pushed_at < client.wanted.interval_ms
        if not early:
            client.pushed_at = now_ms
        return not early

    def _seen(
        self, instance_id: UUID, facts: Mapping[str, str | None], connection: Hashable, now_ms: int
    ) -> Client:  # fmt: skip
        client = self._clients.get(instance_id)
        if client is None:
            known = {**facts, "client_instance_id": uuid_text(instance_id)}
            client = Client(known, connection)
        if client.generation != self._generation:  # with what is wanted, what was asked and pushed begins anew
            fresh = Client(client.facts, connection)
            fresh.generation = self._generation
            fresh.wanted = self._wanted_of(instance_id, client.facts)
            client = self._clients[instance_id] = fresh
        self._by_connection[connection] = instance_id
        client.seen_at = now_ms
        self._clients.move_to_end(instance_id)
        if len(self._clients) > MAX_CLIENTS:
            self._forget(next(iter(self._clients)))
        return client

    def _wanted_of(self, instance_id: UUID, facts: Mapping[str, str | None]) -> Wanted:
        matching = [subscription for subscription in self._subscriptions if subscription.is_for(facts)]
        interval_ms = min([DEFAULT_INTERVAL_MS, *(subscription.interval_ms for subscription in matching)])
        metrics = tuple(sorted({name for subscription in matching for name in subscription.metrics}))
        if ALL_METRICS in metrics:
            metrics = (ALL_METRICS,)
        return Wanted(instance_id, _subscription_id(instance_id, metrics, interval_ms), metrics, interval_ms)

    # -- forgetting

    def expires_at(self, instance_id: UUID, now_ms: int) -> int:
        client = self._clients.get(instance_id)
        return now_ms + _KEPT_MS if client is None else client.expires_at

    def disconnected(self, connection: Hashable) -> None:
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._clients.pop(instance_id, None)

    def expire(self, now_ms: int) -> None:
        for instance_id in [key for key, client in self._clients.items() if client.expires_at <= now_ms]:
            self._forget(instance_id)

    def _forget(self, instance_id: UUID) -> None:
        client = self._clients.pop(instance_id)
        if self._by_connection.get(client.connection) == instance_id:
            del self._by_connection[client.connection]


def _subscription_id(instance_id: UUID, metrics: tuple[str, ...], interval_ms: int) -> int:
    """Another one for each client, and for each set of metrics and interval."""
    number = crc32c(f"{','.join(metrics)};{interval_ms}".encode())
    for at in range(0, 128, 32):
        number ^= instance_id.int >> at & 0xFFFFFFFF
    return number - (1 << 32) if number >= 1 << 31 else number
