"""The way to another node, over real connections that are cut, refused and not answered."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, cast

import pytest
from kio.schema.describe_cluster.v0 import DescribeClusterRequest, DescribeClusterResponse
from tests.wire.listening import Listening
from tests.wire.messages import sample

from ottla.env.backoff import Backoff
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.wire.client import ConnectionFailed, RequestTimedOut
from ottla.wire.link import Link

KEY = 60
REQUEST = DescribeClusterRequest(include_cluster_authorized_operations=False)
ANSWER = sample(DescribeClusterResponse, Random(3))


def env() -> Env:
    nothing = cast(Any, None)
    return Env(nothing, nothing, TcpNetwork(), nothing, SeededRandom(Random(1)))


def link_to(node: Listening, **options: Any) -> Link:
    return Link(env(), "127.0.0.1", node.port, "tester", **options)


def tell(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 20))


def test_all_share_one_connection_which_is_opened_when_it_is_needed() -> None:
    async def story() -> None:
        node = Listening(lambda _: ANSWER, {KEY: (0, 1)})
        await node.open()
        link = link_to(node, negotiates=True)
        answers = await asyncio.gather(*(link.call(REQUEST) for _ in range(10)))
        assert answers == [ANSWER] * 10 and node.opened == 1
        assert link.versions == {KEY: (0, 1)}
        await link.close()
        assert await link.call(REQUEST) == ANSWER and node.opened == 2
        await link.close()
        node.shut()

    tell(story())


def test_a_lost_connection_is_told_of_and_replaced() -> None:
    async def story() -> None:
        node = Listening(lambda _: ANSWER, {})
        await node.open()
        link = link_to(node)
        lost: list[ConnectionFailed] = []
        link.on_lost = lost.append
        await link.call(REQUEST)
        node.handle = lambda _: None
        with pytest.raises(ConnectionFailed):
            await link.call(REQUEST)
        assert len(lost) == 1 and not link.is_open
        node.handle = lambda _: ANSWER
        assert await link.call(REQUEST) == ANSWER
        await link.close()
        assert len(lost) == 1
        node.shut()

    tell(story())


def test_after_a_refusal_the_link_rests_and_then_finds_the_node_again() -> None:
    async def story() -> None:
        node = Listening(lambda _: ANSWER, {})
        await node.open()
        node.shut()
        link = link_to(node, backoff=Backoff(100, 400))
        rests = []
        for _ in range(4):
            with pytest.raises(ConnectionFailed, match="cannot connect"):
                await link.call(REQUEST)
            rests.append(link.rest)
            with pytest.raises(ConnectionFailed, match="cannot connect"):  # at once, without another attempt
                await link.call(REQUEST)
            assert link.rest <= rests[-1]
            await asyncio.sleep(link.rest)
        assert [round(rest, 1) for rest in rests] == [0.1, 0.2, 0.4, 0.4]
        await node.open()
        assert await link.call(REQUEST) == ANSWER
        await link.close()
        node.shut()

    tell(story())


def test_a_node_that_does_not_answer_is_given_up_with_all_that_waits_there() -> None:
    async def story() -> None:
        node = Listening(lambda _: asyncio.get_running_loop().create_future(), {})
        await node.open()
        link = link_to(node)
        impatient, patient = (asyncio.ensure_future(link.call(REQUEST, within=within)) for within in (0.05, 10.0))
        with pytest.raises(RequestTimedOut):
            await impatient
        with pytest.raises(ConnectionFailed):
            await patient
        node.handle = lambda _: ANSWER
        assert await link.call(REQUEST) == ANSWER and node.opened == 2
        await link.close()
        node.shut()

    tell(story())


def test_who_waits_for_a_connection_that_is_given_up_is_told_so_and_goes_on() -> None:
    """Not cancelled: a task that lives on heartbeats would end with the attempt, and nobody would know."""

    async def story() -> None:
        node = Listening(lambda _: ANSWER, {})
        await node.open()
        link = link_to(node)
        waiting = asyncio.ensure_future(link.connection())
        cancelled = asyncio.ensure_future(link.connection())
        await asyncio.sleep(0)
        cancelled.cancel()
        await link.close()
        with pytest.raises(ConnectionFailed, match="given up"):
            await waiting
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        node.shut()

    tell(story())
