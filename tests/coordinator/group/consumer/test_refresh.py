"""Patterns are matched again every `group.consumer.regex.refresh.interval.ms`, on a shard and on virtual time."""

from __future__ import annotations

import asyncio

import pytest
from tests.coordinator.group.consumer.given import image_of
from tests.coordinator.group.keeping import Keeper, config, tell
from tests.log.given import Machine

from ottla.coordinator.group.classic.requests import Client
from ottla.coordinator.group.consumer.requests import HeartbeatRequest


@pytest.mark.parametrize(("interval_ms", "again"), [(20_000, True), (40_000, False)])
def test_patterns_are_matched_again_when_the_interval_is_over(interval_ms: int, again: bool) -> None:
    async def story(keeper: Keeper) -> None:
        keeper.image = image_of(a=1)

        async def beat(epoch: int) -> int:
            request = HeartbeatRequest(
                "g", "m", epoch, Client("c", "/h"), rebalance_timeout_ms=1000, pattern="a.*", owned={}
            )
            answer = await keeper.write(lambda machine: machine.consumer.heartbeat(request))
            await asyncio.sleep(0.1)
            return answer.epoch

        await beat(0)
        group = keeper.groups.consumer.get("g")
        assert group is not None
        first = group.patterns["a.*"].at_ms
        await asyncio.sleep(30)
        await beat(group.members["m"].epoch)

        assert (group.patterns["a.*"].at_ms > first) is again

    tell(Machine(), story, settings=config(group_consumer_regex_refresh_interval_ms=interval_ms))
