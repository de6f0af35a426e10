"""Replication throttles (KIP-73): how fast a follower may catch up, and how fast a leader may feed such followers.

Rates are those of brokers, {leader,follower}.replication.throttled.rate; which replicas they hold for is said by
topics, {leader,follower}.replication.throttled.replicas: `*`, or `partition:broker,...`. The broker is always the one
that is to hold something back: for leaders those that give, not those that they give to. Who is in sync is never held
back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.broker.dynamic_config import DynamicConfig
from ottla.env.ports import Env
from ottla.metadata.image import MetadataImage
from ottla.model.names import TopicPartition
from ottla.replica.partition import Partition

_UNLIMITED: Final = 0x7FFFFFFFFFFFFFFF
_SAMPLES, _SAMPLE_S = 11, 1.0  # replication.quota.window.num and .size.seconds


@dataclass(slots=True)
class _Sample:
    began: float
    last: float
    size: int


class Rate:
    """Bytes a second since the first of the last samples began, and over the length of one at least: as Kafka's
    SimpleRate, what is throttled has no credit from before."""

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def count(self, now: float, size: int) -> None:
        samples = self._samples
        self._drop_old(now)
        if not samples or now - samples[-1].began >= _SAMPLE_S:
            samples.append(_Sample(now, now, 0))
        samples[-1].last = now
        samples[-1].size += size

    def value(self, now: float) -> float:
        self._drop_old(now)
        if not self._samples:
            return 0.0
        return sum(each.size for each in self._samples) / max(now - self._samples[0].began, _SAMPLE_S)

    def _drop_old(self, now: float) -> None:
        while self._samples and now - self._samples[0].last >= _SAMPLES * _SAMPLE_S:
            self._samples.popleft()


class ReplicationQuota:
    """One rate for all replicas on this side of it; both configs by their names."""

    def __init__(
        self, env: Env, config: DynamicConfig, image: Callable[[], MetadataImage], rate: str, replicas: str
    ) -> None:
        self._env = env
        self._config = config
        self._image = image
        self._rate_name = rate
        self._replicas_name = replicas
        self._rate = Rate()
        self._parsed: dict[str, tuple[str, frozenset[str] | None]] = {}

    @property
    def limit(self) -> int:
        return self._config.current.get_int(self._rate_name)

    def is_throttled(self, key: TopicPartition, broker_id: int) -> bool:
        """Whether the topic names this replica."""
        value = self._image().topic_config(key.topic).get(self._replicas_name, "")
        if not value:
            return False
        known = self._parsed.get(key.topic)
        if known is None or known[0] != value:
            every = value.strip() == "*"
            known = (value, None if every else frozenset(part.strip() for part in value.split(",")))
            self._parsed[key.topic] = known
        return known[1] is None or f"{key.partition}:{broker_id}" in known[1]

    def is_exceeded(self) -> bool:
        limit = self.limit
        return limit < _UNLIMITED and self._rate.value(self._env.clock.elapsed()) > limit

    def record(self, size: int) -> None:
        self._rate.count(self._env.clock.elapsed(), size)


class FollowerQuota:
    """What a fetcher asks before it fetches, and tells afterwards."""

    def __init__(self, env: Env, config: DynamicConfig, image: Callable[[], MetadataImage]) -> None:
        self._quota = ReplicationQuota(
            env, config, image, "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
        )
        self._node_id = config.current.node_id

    def holds_back(self, partition: Partition) -> bool:
        quota = self._quota
        return quota.limit < _UNLIMITED and quota.is_throttled(partition.key, self._node_id) and quota.is_exceeded()

    def count(self, partition: Partition, size: int) -> None:
        if self._quota.limit < _UNLIMITED and self._quota.is_throttled(partition.key, self._node_id):
            self._quota.record(size)


class LeaderQuota:
    """What a leader asks before it gives records to a follower."""

    def __init__(self, env: Env, config: DynamicConfig, image: Callable[[], MetadataImage]) -> None:
        self._quota = ReplicationQuota(
            env, config, image, "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
        )
        self._node_id = config.current.node_id

    def holds_back(self, partition: Partition, replica: int) -> bool:
        """Whether this is a follower that is not in sync, the topic names this leader, and the rate is exceeded."""
        quota, leading = self._quota, partition.leading
        if quota.limit == _UNLIMITED or leading is None or replica in leading.isr.committed:
            return False
        return quota.is_throttled(partition.key, self._node_id) and quota.is_exceeded()

    def count(self, partition: Partition, size: int) -> None:
        """What any follower was given, those in sync too."""
        if self._quota.limit < _UNLIMITED and self._quota.is_throttled(partition.key, self._node_id):
            self._quota.record(size)
