"""The group coordinator resigns and is elected again on one node while clients are busy: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import create, topic_to_create
from tests.broker.apis.committing import commit, committed, fetch
from tests.broker.apis.grouping import Member, await_coordinator, members
from tests.waiting import until, until_on_loop

from ottla.model.errors import ErrorCode
from ottla.model.names import OFFSETS_TOPIC
from ottla.replica.partition import Leadership, Partition
from ottla.testing.node import RunningNode, running_node

NONE = ErrorCode.none
ELSEWHERE = 99


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(
        tmp_path, offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=200, group_min_session_timeout_ms=100
    ) as node:
        create(node.address, topic_to_create("orders", 3))
        await_coordinator(node.address, "group")
        yield node


def _partition(node: RunningNode) -> Partition:
    return node.node.replicas.by_name[OFFSETS_TOPIC, 0]


def resign(node: RunningNode) -> None:
    def change() -> None:
        partition = _partition(node)
        partition.lead_or_follow(Leadership(ELSEWHERE, partition.leader_epoch + 1, (ELSEWHERE,), (1, ELSEWHERE)))

    node.on_loop(change)


def take_over(node: RunningNode) -> None:
    def change() -> None:
        partition = _partition(node)
        partition.lead_or_follow(Leadership(node.node.config.node_id, partition.leader_epoch + 1, (1,), (1,)))

    node.on_loop(change)


def in_both_at_once(node: RunningNode) -> list[ErrorCode]:
    """Resigns and takes over in one turn; gives what heartbeat and fetch would be told right then."""

    def change() -> list[ErrorCode]:
        partition = _partition(node)
        epoch = partition.leader_epoch
        partition.lead_or_follow(Leadership(ELSEWHERE, epoch + 1, (ELSEWHERE,), (1, ELSEWHERE)))
        partition.lead_or_follow(Leadership(1, epoch + 2, (1,), (1,)))
        shard = node.node.groups.runtime._shards[0]
        try:
            shard.check()
        except Exception as refused:
            return [getattr(refused, "code", NONE)]
        return [NONE]

    return node.on_loop(change)


def test_one_who_asks_where_it_is_not_is_told_so(node: RunningNode) -> None:
    commit(node.address, "group", {"orders": {0: 1}})
    resign(node)

    assert commit(node.address, "group", {"orders": {0: 2}})["orders"] == {0: ErrorCode.not_coordinator}
    assert fetch(node.address, "group", None).groups[0].error_code is ErrorCode.not_coordinator
    assert fetch(node.address, "group", None, stable=True).groups[0].error_code is ErrorCode.not_coordinator
    (described,) = asking.ask(
        node.address, asking.DESCRIBE_GROUPS, 6, groups=["group"], include_authorized_operations=False
    ).groups
    assert described.error_code is ErrorCode.not_coordinator
    listed = asking.ask(node.address, asking.LIST_GROUPS, 5, states_filter=[], types_filter=[])
    assert (listed.error_code, listed.groups) == (NONE, ())
    (deleted,) = asking.ask(node.address, asking.DELETE_GROUPS, 2, groups_names=["group"]).results
    assert deleted.error_code is ErrorCode.not_coordinator
    heartbeat = asking.ask(
        node.address, asking.HEARTBEAT, 4, group_id="group", generation_id=1, member_id="m", group_instance_id=None
    )
    assert heartbeat.error_code is ErrorCode.not_coordinator
    joined = asking.ask(
        node.address, asking.JOIN_GROUP, 9, group_id="group", session_timeout=timedelta(seconds=10),
        rebalance_timeout=timedelta(seconds=60), member_id="", group_instance_id=None, protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}], reason=None,
    )  # fmt: skip
    assert joined.error_code is ErrorCode.not_coordinator

    take_over(node)
    until(lambda: fetch(node.address, "group", None).groups[0].error_code is NONE, "it is loaded")
    assert committed(node.address, "group")["orders"] == [(0, 1, -1, "")]


def test_who_takes_over_loads_first(node: RunningNode) -> None:
    commit(node.address, "group", {"orders": {0: 1}})

    assert in_both_at_once(node) == [ErrorCode.coordinator_load_in_progress]

    until(lambda: fetch(node.address, "group", None).groups[0].error_code is NONE, "it is loaded")
    assert committed(node.address, "group")["orders"] == [(0, 1, -1, "")]


def test_members_go_on_after_it_has_moved(node: RunningNode) -> None:
    async def story(given: list[Member]) -> None:
        leader, follower = given
        joined = await asyncio.gather(*[member.join(5, session_timeout=timedelta(seconds=20)) for member in given])
        if joined[0].leader != leader.id:
            leader, follower = follower, leader
        waiting = asyncio.ensure_future(follower.sync(5))
        await until_on_loop(lambda: sum(node.node.dispatcher.stats[asking.SYNC_GROUP].versions), "it has asked")
        await asyncio.to_thread(in_both_at_once, node)
        assert (await waiting).error_code is ErrorCode.not_coordinator  # the assignment had not come yet
        for member in given:
            while (code := await member.heartbeat()) is NONE:
                await asyncio.sleep(0.01)  # loading counts as being heard
            assert code is ErrorCode.unknown_member_id  # it had never been stored
            member.id = ""
        again = await asyncio.gather(*[member.join(5, session_timeout=timedelta(seconds=20)) for member in given])
        assert [answer.error_code for answer in again] == [NONE, NONE]
        leader = next(member for member in given if member.id == again[0].leader)
        shares = {member.id: member.id.encode() for member in given}
        synced = await asyncio.gather(*[member.sync(5, shares if member is leader else None) for member in given])
        assert [answer.assignment for answer in synced] == [member.id.encode() for member in given]
        await asyncio.to_thread(in_both_at_once, node)
        for member in given:  # stored, and so known to whoever coordinates
            assert await member.heartbeat() is NONE
        while (told := await given[0].sync(5)).error_code is ErrorCode.coordinator_load_in_progress:
            await asyncio.sleep(0.01)
        assert told.assignment == given[0].id.encode()

    async def run() -> None:
        async with members(node.address, "group", 2) as given:
            await story(given)

    asyncio.run(run())


def test_commits_under_way_are_kept_or_refused(node: RunningNode) -> None:
    """What was acknowledged is there after every move; an offset never goes back."""
    acknowledged = {partition: 0 for partition in range(3)}
    refused: set[ErrorCode] = set()

    async def committing(member: Member, partition: int) -> None:
        for offset in range(1, 200):
            row = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1,
                   "committed_metadata": ""}  # fmt: skip
            answer = await member.ask(
                asking.OFFSET_COMMIT, 9, generation_id_or_member_epoch=-1,
                topics=[{"name": "orders", "partitions": [row]}],
            )  # fmt: skip
            code = answer.topics[0].partitions[0].error_code
            if code is NONE:
                acknowledged[partition] = offset
            else:
                refused.add(code)

    async def moving() -> None:
        for _ in range(15):
            await asyncio.sleep(0.02)
            before = dict(acknowledged)
            await asyncio.to_thread(in_both_at_once, node)
            while (await asyncio.to_thread(fetch, node.address, "group", None)).groups[0].error_code:
                await asyncio.sleep(0.001)
            rows = await asyncio.to_thread(committed, node.address, "group")
            for partition, offset, *_ in rows.get("orders", []):
                assert offset >= before[partition]

    async def run() -> None:
        async with members(node.address, "group", 3) as given:
            await asyncio.gather(moving(), *[committing(member, at) for at, member in enumerate(given)])

    asyncio.run(run())
    kept = {row[0]: row[1] for row in committed(node.address, "group")["orders"]}
    assert all(kept[partition] >= offset for partition, offset in acknowledged.items())
    assert refused <= {ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress}
