"""Classic groups over sockets, in every version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import ask
from tests.broker.apis.grouping import Member, await_coordinator, members
from tests.broker.apis.test_authorization import denying

from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource
from ottla.testing.node import RunningNode, running_node

NONE = ErrorCode.none
_numbers = count()
Story = Callable[[list[Member]], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(
        tmp_path_factory.mktemp("node"), group_initial_rebalance_delay_ms=100, group_min_session_timeout_ms=200,
        offsets_topic_num_partitions=3, group_max_size=50,
    ) as running:  # fmt: skip
        yield running


@pytest.fixture
def group_id(address: str) -> str:
    name = f"group-{next(_numbers)}"
    await_coordinator(address, name)
    return name


def tell(address: str, group_id: str, count: int, story: Story, instances: tuple[str, ...] = ()) -> None:
    async def run() -> None:
        async with members(address, group_id, count, instances=instances) as given:
            await story(given)

    asyncio.run(run())


async def settle(given: list[Member], join: int = 9, sync: int = 5) -> Member:
    """All join and are assigned their number; gives the leader."""
    joined = await asyncio.gather(*[member.join(join) for member in given])
    assert {answer.error_code for answer in joined} == {NONE}, joined
    (leader,) = [member for member in given if member.id == joined[0].leader]
    shares = {member.id: b"%d" % number for number, member in enumerate(given)}
    synced = await asyncio.gather(*[member.sync(sync, shares if member is leader else None) for member in given])
    assert [answer.assignment for answer in synced] == [b"%d" % number for number in range(len(given))]
    return leader


def describe(address: str, group_id: str, version: int = 6) -> Any:
    (group,) = ask(
        address, asking.DESCRIBE_GROUPS, version, groups=[group_id], include_authorized_operations=True
    ).groups
    return group


def listed(address: str, version: int = 5, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> dict[str, Any]:
    answer = ask(address, asking.LIST_GROUPS, version, states_filter=states, types_filter=types)
    assert answer.error_code is NONE if hasattr(answer, "error_code") else True
    return {group.group_id: group for group in answer.groups}


def delete(address: str, *group_ids: str, version: int = 2) -> dict[str, ErrorCode]:
    answer = ask(address, asking.DELETE_GROUPS, version, groups_names=group_ids)
    return {result.group_id: result.error_code for result in answer.results}


@pytest.mark.parametrize("version", range(10))
def test_a_groups_life_in_every_version(address: str, group_id: str, version: int) -> None:
    """JoinGroup's versions; the others take theirs, or their newest."""
    sync, heartbeat, leave = min(version, 5), min(version, 4), min(version, 5)

    async def story(given: list[Member]) -> None:
        joined = await asyncio.gather(*[member.join(version) for member in given])
        leader = next(member for member in given if member.id == joined[0].leader)
        (led,) = [answer for answer in joined if answer.member_id == leader.id]
        assert {answer.protocol_name for answer in joined} == {"range"}
        assert {member.member_id for member in led.members} == {member.id for member in given}
        assert {member.metadata for member in led.members} == {b"subscription"}
        assert [len(answer.members) for answer in joined if answer is not led] == [0]
        shares = {member.id: member.id.encode() for member in given}
        synced = await asyncio.gather(*[member.sync(sync, shares if member is leader else None) for member in given])
        assert [answer.assignment for answer in synced] == [member.id.encode() for member in given]
        assert [await member.heartbeat(heartbeat) for member in given] == [NONE] * 2
        left = await leader.leave(leave)
        assert left.error_code is NONE
        (other,) = [member for member in given if member is not leader]
        assert await other.heartbeat(heartbeat) is ErrorCode.rebalance_in_progress
        again = await other.join(version)
        assert (again.generation_id, again.leader) == (joined[0].generation_id + 1, other.id)

    tell(address, group_id, 2, story)


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(address: str, group_id: str, version: int) -> None:
    absent = describe(address, group_id, version)
    assert absent.group_state == "Dead"
    assert absent.error_code is (NONE if version < 6 else ErrorCode.group_id_not_found)
    if version >= 6:
        assert absent.error_message == f"Group {group_id} not found."

    async def story(given: list[Member]) -> None:
        await settle(given)
        group = await asyncio.to_thread(describe, address, group_id, version)
        assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
            NONE, "Stable", "consumer", "range",
        )  # fmt: skip
        (member,) = group.members
        assert member.member_id == given[0].id
        assert (member.client_id, member.client_host) == ("test", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (b"subscription", b"0")
        if version >= 3:
            assert group.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
        if version >= 4:
            assert member.group_instance_id == "i"

    tell(address, group_id, 1, story, instances=("i",))


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(address: str, group_id: str, version: int) -> None:
    async def story(given: list[Member]) -> None:
        await settle(given)
        group = (await asyncio.to_thread(listed, address, version))[group_id]
        assert group.protocol_type == "consumer"
        if version >= 4:
            assert group.group_state == "Stable"
            assert group_id not in await asyncio.to_thread(listed, address, version, ("Empty",))
            assert group_id in await asyncio.to_thread(listed, address, version, ("stable", "Empty"))
        if version >= 5:
            assert group.group_type == "classic"
            assert group_id in await asyncio.to_thread(listed, address, version, (), ("Classic",))
            assert await asyncio.to_thread(listed, address, version, (), ("consumer", "nonsense")) == {}

    tell(address, group_id, 1, story)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_in_every_version(address: str, group_id: str, version: int) -> None:
    async def story(given: list[Member]) -> None:
        await settle(given)
        assert await asyncio.to_thread(delete, address, group_id, "absent", version=version) == {
            group_id: ErrorCode.non_empty_group,
            "absent": ErrorCode.group_id_not_found,
        }
        await given[0].leave()

    tell(address, group_id, 1, story)
    assert describe(address, group_id).group_state == "Empty"
    assert delete(address, group_id, version=version) == {group_id: NONE}
    assert group_id not in listed(address)
    assert delete(address, group_id, version=version) == {group_id: ErrorCode.group_id_not_found}


class TestErrors:
    @pytest.mark.parametrize(
        ("values", "error"),
        [
            ({"group_id": ""}, ErrorCode.invalid_group_id),
            ({"session_timeout": timedelta(milliseconds=199)}, ErrorCode.invalid_session_timeout),
            ({"session_timeout": timedelta(milliseconds=1_800_001)}, ErrorCode.invalid_session_timeout),
            ({"protocols": []}, ErrorCode.inconsistent_group_protocol),
            ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
            ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
        ],
    )
    def test_of_joining(self, address: str, group_id: str, values: dict[str, Any], error: ErrorCode) -> None:
        async def story(given: list[Member]) -> None:
            answer = await given[0].join(**values)
            assert (answer.error_code, answer.generation_id, answer.leader, answer.protocol_name) == (
                error, -1, "", None,
            )  # fmt: skip
            assert answer.member_id == values.get("member_id", "")

        tell(address, group_id, 1, story)

    def test_of_syncing(self, address: str, group_id: str) -> None:
        async def story(given: list[Member]) -> None:
            (member,) = given
            assert (await member.sync()).error_code is ErrorCode.unknown_member_id
            assert (await member.sync(group_id="")).error_code is ErrorCode.invalid_group_id
            assert (await member.sync(protocol_name=None)).error_code is ErrorCode.inconsistent_group_protocol
            await settle(given)
            assert (await member.sync(generation_id=7)).error_code is ErrorCode.illegal_generation
            assert (await member.sync(protocol_name="x")).error_code is ErrorCode.inconsistent_group_protocol

        tell(address, group_id, 1, story)

    def test_of_heartbeats_and_leaving(self, address: str, group_id: str) -> None:
        async def story(given: list[Member]) -> None:
            (member,) = given
            assert await member.heartbeat(group_id="") is ErrorCode.invalid_group_id
            assert await member.heartbeat() is ErrorCode.unknown_member_id
            assert (await member.leave(group_id="")).error_code is ErrorCode.invalid_group_id
            assert (await member.leave(version=1)).error_code is ErrorCode.unknown_member_id
            left = await member.leave()
            assert left.error_code is NONE
            assert [one.error_code for one in left.members] == [ErrorCode.unknown_member_id]
            await settle(given)
            assert await member.heartbeat(generation_id=0) is ErrorCode.illegal_generation

        tell(address, group_id, 1, story)

    def test_a_node_that_coordinates_nothing(self, tmp_path: Path) -> None:
        with running_node(tmp_path) as fresh:

            async def story(given: list[Member]) -> None:
                (member,) = given
                elsewhere = ErrorCode.not_coordinator
                assert (await member.join()).error_code is elsewhere
                assert (await member.sync()).error_code is elsewhere
                assert await member.heartbeat() is elsewhere
                assert (await member.leave()).error_code is elsewhere

            tell(fresh.address, "g", 1, story)
            assert describe(fresh.address, "g").error_code is ErrorCode.not_coordinator
            assert delete(fresh.address, "g") == {"g": ErrorCode.not_coordinator}
            assert listed(fresh.address) == {}


def test_who_may_not_read_or_see_a_group(node: RunningNode, address: str, group_id: str) -> None:
    refused = ErrorCode.group_authorization_failed

    async def story(given: list[Member]) -> None:
        (member,) = given
        assert (await member.join()).error_code is refused
        assert (await member.sync()).error_code is refused
        assert await member.heartbeat() is refused
        assert (await member.leave()).error_code is refused

    with denying(node, *[(op, Resource.GROUP, group_id) for op in (Operation.READ, Operation.DELETE)]):
        tell(address, group_id, 1, story)
        assert delete(address, group_id) == {group_id: refused}
    tell(address, group_id, 1, lambda given: _settled(given))
    with denying(node, (Operation.DESCRIBE, Resource.GROUP, group_id)):
        assert describe(address, group_id).error_code is refused
        assert group_id in listed(address)  # who may describe the cluster sees all groups
    with denying(node, (Operation.DESCRIBE, Resource.GROUP, group_id), (Operation.DESCRIBE, Resource.CLUSTER)):
        assert group_id not in listed(address)


async def _settled(given: list[Member]) -> None:
    await settle(given)


def test_a_member_that_falls_silent_is_missed(address: str, group_id: str) -> None:
    async def story(given: list[Member]) -> None:
        silent, other = given
        joined = [asyncio.ensure_future(other.join()), silent.join(session_timeout=timedelta(milliseconds=400))]
        await asyncio.gather(*joined)
        await asyncio.gather(silent.sync(), other.sync())
        while await other.heartbeat() is NONE:
            await asyncio.sleep(0.05)
        assert await other.heartbeat() is ErrorCode.rebalance_in_progress
        assert (await other.join()).generation_id == 2
        assert await silent.heartbeat() is ErrorCode.unknown_member_id

    tell(address, group_id, 2, story)


def test_a_static_member_comes_back_without_a_rebalance(address: str, group_id: str) -> None:
    async def story(given: list[Member]) -> None:
        first, second, back = given
        back.instance_id = "b"
        await settle([first, second])
        told = await back.join()
        assert (told.generation_id, told.error_code) == (1, NONE)
        assert (await back.sync()).assignment == b"1"
        assert await first.heartbeat() is NONE
        assert await second.heartbeat() is ErrorCode.fenced_instance_id
        # an administrator removes it by its name
        left = await first.leave(members=[{"member_id": "", "group_instance_id": "b", "reason": None}])
        assert [one.error_code for one in left.members] == [NONE]
        assert await back.heartbeat() is ErrorCode.unknown_member_id

    tell(address, group_id, 3, story, instances=("a", "b"))


def test_a_client_that_goes_while_it_waits_leaves_no_trace_of_its_request(address: str, group_id: str) -> None:
    async def story(given: list[Member]) -> None:
        gone, stays = given
        await settle([stays])
        waiting = asyncio.ensure_future(gone.join())
        while await stays.heartbeat() is NONE:
            await asyncio.sleep(0.01)
        waiting.cancel()
        await gone.connection.close()
        assert (await stays.join()).error_code is NONE

    tell(address, group_id, 2, story)


def test_groups_outlive_their_node(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"group_initial_rebalance_delay_ms": 50, "offsets_topic_num_partitions": 2}
    ids: list[str] = []

    async def before(given: list[Member]) -> None:
        await settle(given)
        ids.extend(member.id for member in given)

    async def after(given: list[Member]) -> None:
        for member, member_id in zip(given, ids, strict=True):
            member.id, member.generation = member_id, 1
        assert [await member.heartbeat() for member in given] == [NONE, NONE]
        assert [(await member.sync()).assignment for member in given] == [b"0", b"1"]

    with running_node(tmp_path, **settings) as first:
        await_coordinator(first.address, "lasting")
        tell(first.address, "lasting", 2, before)
        described = describe(first.address, "lasting")
    with running_node(tmp_path, **settings) as second:
        await_coordinator(second.address, "lasting")
        assert describe(second.address, "lasting") == described
        tell(second.address, "lasting", 2, after)


def test_a_group_that_is_full(address: str, group_id: str) -> None:
    async def story(given: list[Member]) -> None:
        await settle(given[:50])
        refused = await given[50].join()
        assert (refused.error_code, refused.member_id) == (ErrorCode.group_max_size_reached, "")

    tell(address, group_id, 51, story)
