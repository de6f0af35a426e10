"""Who follows whom: a fetcher for each leader, or several (num.replica.fetchers), with the partitions it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final
from zlib import crc32

from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.leader_link import LeaderLink
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.metadata.image import MetadataImage
from ottla.model.config import BrokerConfig
from ottla.replica.fetch_wire import Key, Limits
from ottla.replica.fetcher import Condition, Fetcher, Fetching, FetchSettings, Quota, Tier
from ottla.replica.partition import Partition

_log = logging.getLogger("ottla.broker")
_PENDING_UPLOAD: Final = 29  # the metadata.version with which every leader can be asked for it: 4.2-IV1
_JUST_S: Final = 1.0  # longer ago it says little: the way to the leader may be broken from here alone


def begins_after_tier(config: BrokerConfig, image: MetadataImage) -> bool:
    """Whether a new follower leaves all that is in the remote tier to the tier.

    Amid an upgrade it does not: a leader of before does not understand the question where that ends.
    """
    return image.metadata_version >= _PENDING_UPLOAD and bool(config.get("follower.fetch.last.tiered.offset.enable"))


class Fetchers:
    def __init__(
        self,
        env: Env,
        config: DynamicConfig,
        image: Callable[[], MetadataImage],
        broker_epoch: Callable[[], int],
        quota: Quota,
    ) -> None:
        self._env = env
        self._config = config
        self._image = image
        self._broker_epoch = broker_epoch
        self._quota = quota
        self.tier: Tier | None = None
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._places: dict[Key, tuple[int, int]] = {}
        self._bytes_of_stopped = 0
        self._settings_of: tuple[BrokerConfig, bool, FetchSettings] | None = None
        self._tasks = Tasks(lambda error: _log.error("a fetcher could not be stopped: %r", error))

    def follow(self, partition: Partition) -> None:
        """From the leader that it has now, if it has one."""
        leader = partition.leadership.leader
        key: Key = (partition.topic_id, partition.key.partition)
        place = (leader, crc32(str(partition.key).encode()) % self._config.current.get_int("num.replica.fetchers"))
        if self._places.get(key, place) != place or leader < 0:
            self.leave(partition)
        if leader < 0:
            return
        fetcher = self._fetchers.get(place)
        if fetcher is None:
            fetcher = self._fetchers[place] = self._new(*place)
        self._places[key] = place
        fetcher.follow(partition)

    def leave(self, partition: Partition) -> None:
        key: Key = (partition.topic_id, partition.key.partition)
        place = self._places.pop(key, None)
        if place is None:
            return
        fetcher = self._fetchers[place]
        fetcher.leave(key)
        if fetcher.is_idle:
            self._bytes_of_stopped += fetcher.bytes_fetched
            del self._fetchers[place]
            self._tasks.start(fetcher.stop(), "stop a fetcher")

    def start_moved(self, partition: Partition) -> None:
        key: Key = (partition.topic_id, partition.key.partition)
        place = self._places.get(key)
        if place is not None:
            self._fetchers[place].start_moved(key)

    @property
    def lost_leaders(self) -> frozenset[int]:
        """Those whose connections have just ended, most likely with their processes."""
        since = self._env.loop.time() - _JUST_S
        return frozenset(
            leader
            for (leader, _), fetcher in self._fetchers.items()
            if fetcher.lost_at is not None and fetcher.lost_at > since
        )

    def _new(self, leader: int, number: int) -> Fetcher:
        node_id = self._config.current.node_id
        link = LeaderLink(
            self._env,
            leader,
            f"broker-{node_id}-fetcher-{number}",
            self._image,
            lambda: self._config.current,
        )
        fetcher = Fetcher(self._env, node_id, link, self._settings, self._broker_epoch, self._quota)
        fetcher.tier = self.tier
        return fetcher

    def _settings(self) -> FetchSettings:
        config, known = self._config.current, self._settings_of
        after_tier = begins_after_tier(config, self._image())
        if known is None or known[0] is not config or known[1] is not after_tier:
            limits = Limits(
                config.replica_fetch_wait_max_ms,
                config.get_int("replica.fetch.min.bytes"),
                config.get_int("replica.fetch.response.max.bytes"),
            )
            settings = FetchSettings(
                config.replica_fetch_max_bytes,
                limits,
                config.get_int("replica.fetch.backoff.ms") / 1000,
                config.get_int("replica.socket.timeout.ms") / 1000,
                after_tier,
            )
            known = self._settings_of = (config, after_tier, settings)
        return known[2]

    async def stop(self) -> None:
        fetchers, self._fetchers = self._fetchers, {}
        self._places.clear()
        for fetcher in fetchers.values():
            await fetcher.stop()
        await self._tasks.settle()

    # -- for metrics

    @property
    def max_lag(self) -> int:
        """How many records the partition that is furthest behind lacks."""
        return max((each.lag or 0 for each in self._each()), default=0)

    @property
    def failed(self) -> int:
        return sum(each.condition is Condition.FAILED for each in self._each())

    def _each(self) -> list[Fetching]:
        return [each for fetcher in self._fetchers.values() for each in fetcher.partitions.values()]

    @property
    def bytes_in(self) -> int:
        return self._bytes_of_stopped + sum(fetcher.bytes_fetched for fetcher in self._fetchers.values())
