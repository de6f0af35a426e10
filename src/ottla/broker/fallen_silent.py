"""Brokers that have just been found dead, and that clients still get to see.

A broker is found dead here within moments, and its leaders have moved by then; Apache Kafka finds out when its session
is over, and up to then Metadata names it. Clients rely on that without knowing: librdkafka forgets a broker that is not
named any more, together with the thread that would have found its group another coordinator, and a transaction that
waits for that one waits for good (librdkafka issues 5511 and 5456). So a broker that fell silent is named for as long
as its session would have lasted: to dial it is to be refused, and to ask somebody else. Who shuts down in order, or is
unregistered, is named no longer.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.env.ports import Env
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage


class FallenSilent:
    def __init__(self, env: Env, session_ms: Callable[[], int]) -> None:
        self._env = env
        self._session_ms = session_ms
        self._active: set[int] = set()
        self._named_until: dict[int, float] = {}

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        now = self._env.loop.time()
        for broker_id in delta.changed_brokers:
            broker = image.brokers.get(broker_id)
            if broker is not None and broker.fenced:
                if broker_id in self._active and not broker.in_controlled_shutdown:
                    self._named_until[broker_id] = now + self._session_ms() / 1000
            else:
                self._named_until.pop(broker_id, None)
            if broker is not None and broker.active:
                self._active.add(broker_id)
            else:
                self._active.discard(broker_id)

    @property
    def ids(self) -> frozenset[int]:
        """Those that are named although they are fenced."""
        if not self._named_until:
            return frozenset()
        now = self._env.loop.time()
        return frozenset(broker_id for broker_id, until in self._named_until.items() if until > now)
