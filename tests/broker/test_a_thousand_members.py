"""A thousand members join one group at once: nobody else is kept waiting for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path

from tests.broker.apis.grouping import Member, await_coordinator, members

from ottla.model.errors import ErrorCode
from ottla.testing.process import NodeProcess, running_process

MEMBERS = 1000
LONGEST_STALL_MS = 200  # alone on a machine it is 40 ms
ROOM = timedelta(seconds=60)


def loop_lag_ms(node: NodeProcess) -> float:
    """The longest since the last time of asking."""
    seen = node.log_size()
    os.kill(node.pid, signal.SIGUSR1)
    deadline = time.monotonic() + 10
    while "loop_lag_ms" not in node.log(since=seen):
        assert time.monotonic() < deadline
        time.sleep(0.02)
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


def test_a_thousand_members_at_once_and_one_leaving(tmp_path: Path) -> None:
    with running_process(tmp_path, group_initial_rebalance_delay_ms=1000) as node:
        await_coordinator(node.address, "large")

        async def story() -> None:
            async with members(node.address, "large", MEMBERS) as given:
                loop_lag_ms(node)
                await settle(given, 1)
                await given[7].leave()
                await settle(given[:7] + given[8:], 2)

        asyncio.run(story())
        assert loop_lag_ms(node) < LONGEST_STALL_MS
