"""How much may go to the tier and come from it in a second (KIP-956)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.tier.tiered import consume, create, partition, produce, tiered_node, until_local_from

from ottla.broker.tier.quota import COPY, FETCH, Limits, TierQuota


class World:
    def __init__(self, limit: int, windows: int = 3, window_s: int = 1) -> None:
        self.now = 1000.0
        values = {
            "remote.log.manager.copy.max.bytes.per.second": limit,
            "remote.log.manager.copy.quota.window.num": windows,
            "remote.log.manager.copy.quota.window.size.seconds": window_s,
            "remote.log.manager.fetch.max.bytes.per.second": limit,
            "remote.log.manager.fetch.quota.window.num": windows,
            "remote.log.manager.fetch.quota.window.size.seconds": window_s,
        }
        self.env = cast(Any, SimpleNamespace(clock=SimpleNamespace(elapsed=lambda: self.now)))
        self.config = cast(Any, SimpleNamespace(get_int=values.__getitem__))


def exceeded(quota: TierQuota) -> bool:
    return quota.is_exceeded


@pytest.mark.parametrize("limits", [COPY, FETCH])
def test_what_went_in_the_last_windows_counts(limits: Limits) -> None:
    world = World(100)
    quota = TierQuota(world.env, lambda: world.config, limits)
    assert not exceeded(quota)
    quota.count(150)
    assert not exceeded(quota)  # in two seconds
    quota.count(100)
    assert exceeded(quota)
    world.now += 2.5
    assert not exceeded(quota)  # 250 in two and a half seconds
    quota.count(1000)
    world.now += 3
    assert not exceeded(quota)  # that was long ago


@pytest.mark.parametrize("limits", [COPY, FETCH])
@pytest.mark.parametrize(("windows", "window_s", "expected"), [(3, 1, True), (11, 1, False), (3, 10, False)])
def test_more_or_longer_windows_even_it_out(limits: Limits, windows: int, window_s: int, expected: bool) -> None:
    world = World(100, windows, window_s)
    quota = TierQuota(world.env, lambda: world.config, limits)
    quota.count(900)
    assert exceeded(quota) is expected


def test_without_a_limit_nothing_is_held_back(waits: list[float]) -> None:
    world = World(0x7FFFFFFFFFFFFFFF)
    quota = TierQuota(world.env, lambda: world.config, COPY)
    quota.count(10**15)
    assert not exceeded(quota)
    asyncio.run(quota.until_due(10**15))
    assert waits == []


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long somebody was held back, each time; no time passes meanwhile."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(round(seconds, 6))

    monkeypatch.setattr("ottla.broker.tier.quota.asyncio.sleep", sleep)
    return found


def test_requests_follow_each_other_at_the_pace_of_the_limit(waits: list[float]) -> None:
    world = World(100)
    quota = TierQuota(world.env, lambda: world.config, FETCH)
    for _ in range(3):
        asyncio.run(quota.until_due(40))
    assert waits == [0.4, 0.8]
    world.now += 60.0
    asyncio.run(quota.until_due(40))
    assert waits == [0.4, 0.8]  # nobody pays for having been quiet


def test_a_large_request_holds_up_the_next_one_no_longer_than_the_windows(waits: list[float]) -> None:
    world = World(100, windows=3)
    quota = TierQuota(world.env, lambda: world.config, FETCH)
    asyncio.run(quota.until_due(10**9))
    asyncio.run(quota.until_due(1))
    assert waits == [3.0]


def test_reads_are_held_back_and_still_come(tmp_path: Path) -> None:
    with tiered_node(tmp_path, remote_log_manager_fetch_max_bytes_per_second=2000) as running:
        create(running.address)
        end = produce(running.address, 0, 12)
        until_local_from(running, end)
        assert consume(running.address, 0, end) == list(range(end))
        assert partition(running).log.local_start_offset == end
