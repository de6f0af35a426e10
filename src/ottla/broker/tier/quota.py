"""How much may go to the remote tier and come from it in a second (KIP-956)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.env.ports import Env
from ottla.model.config import BrokerConfig

_UNLIMITED: Final = 0x7FFFFFFFFFFFFFFF
_LOOK_AGAIN_S: Final = 0.1


class Limits(NamedTuple):
    """The names of its configs."""

    rate: str
    windows: str
    window_seconds: str


COPY: Final = Limits(
    "remote.log.manager.copy.max.bytes.per.second",
    "remote.log.manager.copy.quota.window.num",
    "remote.log.manager.copy.quota.window.size.seconds",
)
FETCH: Final = Limits(
    "remote.log.manager.fetch.max.bytes.per.second",
    "remote.log.manager.fetch.quota.window.num",
    "remote.log.manager.fetch.quota.window.size.seconds",
)


class TierQuota:
    def __init__(self, env: Env, config: Callable[[], BrokerConfig], limits: Limits) -> None:
        self._env = env
        self._config = config
        self._limit = limits.rate
        current = config()
        self._windows = current.get_int(limits.windows)
        self._window_s = current.get_int(limits.window_seconds)
        self._counted: dict[int, int] = {}  # by the number of the window
        self._due = 0.0

    def count(self, size: int) -> None:
        number = int(self._env.clock.elapsed() / self._window_s)
        for old in [each for each in self._counted if each <= number - self._windows]:
            del self._counted[old]
        self._counted[number] = self._counted.get(number, 0) + size

    @property
    def is_exceeded(self) -> bool:
        limit = self._config().get_int(self._limit)
        if limit >= _UNLIMITED:
            return False
        now = self._env.clock.elapsed()
        number = int(now / self._window_s)
        counted = sum(size for each, size in self._counted.items() if each > number - self._windows)
        elapsed = now - (number - self._windows + 1) * self._window_s
        return counted / max(elapsed, self._window_s) > limit

    async def until_free(self) -> None:
        while self.is_exceeded:
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def until_due(self, size: int) -> None:
        """For a request of so many bytes. On average over the windows they may come in bursts, which others feel: so
        requests follow each other at the pace of the limit, as far as the windows reach."""
        limit = self._config().get_int(self._limit)
        if limit >= _UNLIMITED:
            return
        now = self._env.clock.elapsed()
        begins = max(self._due, now)
        self._due = min(begins + size / limit, now + self._windows * self._window_s)
        if begins > now:
            await asyncio.sleep(begins - now)
