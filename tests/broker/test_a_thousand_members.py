"""A thousand members join one group at once: nobody else is kept waiting for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from tests.broker.apis import asking
from tests.broker.apis.asking import create, topic_to_create
from tests.broker.apis.grouping import Member, await_coordinator, members
from tests.waiting import at_best, until

from ottla.model.errors import ErrorCode
from ottla.testing.process import NodeProcess, running_process

MEMBERS = 1000
LONGEST_STALL_MS = 200  # alone on a machine it is 40 ms
_numbers = count()
ROOM = timedelta(seconds=60)


def loop_lag_ms(node: NodeProcess) -> float:
    """The longest since the last time of asking."""
    seen = node.log_size()
    os.kill(node.pid, signal.SIGUSR1)
    until(lambda: "loop_lag_ms" in node.log(since=seen))
    (line,) = [line for line in node.log(since=seen).splitlines() if "loop_lag_ms" in line]
    return float(json.loads(line[line.index("{") :])["loop_lag_ms"]["max"])


async def settle(given: list[Member], generation: int) -> None:
    joined = await asyncio.gather(*[member.join(rebalance_timeout=ROOM) for member in given])
    assert {(answer.error_code, answer.generation_id) for answer in joined} == {(ErrorCode.none, generation)}
    shares = {member.id: member.id.encode() for member in given}
    synced = await asyncio.gather(
        *[member.sync(shares=shares if member.id == joined[0].leader else None) for member in given]
    )
    assert [answer.assignment for answer in synced] == [member.id.encode() for member in given]
    assert set(await asyncio.gather(*[member.heartbeat() for member in given])) == {ErrorCode.none}


class Consumer:
    """A member of a consumer group that does as it is told."""

    def __init__(self, member: Member, number: int) -> None:
        self._member = member
        member.id = f"member-{number}"
        self.epoch = 0
        self.owned: dict[Any, Sequence[int]] = {}

    async def beat(self, epoch: int | None = None) -> None:
        joins = self.epoch == 0
        owned = [{"topic_id": topic_id, "partitions": parts} for topic_id, parts in self.owned.items()]
        answer = await self._member.ask(
            asking.CONSUMER_GROUP_HEARTBEAT, 1, member_epoch=self.epoch if epoch is None else epoch, instance_id=None,
            rack_id=None, rebalance_timeout=ROOM if joins else timedelta(milliseconds=-1),
            subscribed_topic_names=["t"] if joins else None, subscribed_topic_regex=None, server_assignor=None,
            topic_partitions=owned,
        )  # fmt: skip
        assert answer.error_code is ErrorCode.none, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {row.topic_id: row.partitions for row in answer.assignment.topic_partitions}


async def share(consumers: list[Consumer]) -> None:
    """Until all are in one epoch, and each partition is someone's."""
    for _ in range(1000):
        await asyncio.gather(*[consumer.beat() for consumer in consumers])
        owned = [part for consumer in consumers for parts in consumer.owned.values() for part in parts]
        if len({consumer.epoch for consumer in consumers}) == 1 and sorted(owned) == list(range(MEMBERS)):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{len(owned)} of {MEMBERS} partitions are owned")


def longest_stall_ms(node: NodeProcess, story: Callable[[str], Coroutine[Any, Any, None]]) -> float:
    group = f"large-{next(_numbers)}"
    await_coordinator(node.address, group)
    asyncio.run(story(group))
    return loop_lag_ms(node)


def test_a_thousand_consumers_at_once_and_one_leaving(tmp_path: Path) -> None:
    with running_process(tmp_path) as node:
        create(node.address, topic_to_create("t", MEMBERS))

        async def story(group: str) -> None:
            async with members(node.address, group, MEMBERS) as given:
                consumers = [Consumer(member, number) for number, member in enumerate(given)]
                loop_lag_ms(node)
                await share(consumers)
                await consumers.pop(7).beat(-1)
                await share(consumers)

        assert at_best(lambda: longest_stall_ms(node, story), LONGEST_STALL_MS) < LONGEST_STALL_MS


def test_a_thousand_members_at_once_and_one_leaving(tmp_path: Path) -> None:
    with running_process(tmp_path, group_initial_rebalance_delay_ms=1000) as node:

        async def story(group: str) -> None:
            async with members(node.address, group, MEMBERS) as given:
                loop_lag_ms(node)
                await settle(given, 1)
                await given[7].leave()
                await settle(given[:7] + given[8:], 2)

        assert at_best(lambda: longest_stall_ms(node, story), LONGEST_STALL_MS) < LONGEST_STALL_MS
