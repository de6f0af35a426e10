"""Dead brokers are found at once, living ones never: real sockets, a controller that only notes what it is asked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.metadata import given
from tests.waiting import PATIENCE_S

from ottla.broker import failure_detector
from ottla.broker.failure_detector import FailureDetector
from ottla.broker.run import real_env
from ottla.metadata.controller.requests import FenceDeadBrokers, RegisterBroker
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import Endpoint

DIRECTORIES = (UUID(int=71), UUID(int=72))


class Controller:
    def __init__(self) -> None:
        self.is_active = True
        self.on_active: list[Callable[[], None]] = []
        self.fenced: list[int] = []
        self.must_live: list[int] = []
        self.on_doubt: Callable[[], None] = lambda: None

    async def submit(self, request: FenceDeadBrokers) -> int | None:
        dead = [broker_id for broker_id, _ in request.incarnations]
        for broker_id in self.must_live:
            if broker_id not in request.alive and broker_id not in dead:
                self.on_doubt()
                return broker_id
        self.fenced += dead
        return None


class World:
    """Brokers 1, with two listeners, and 2, of which nothing is heard; this is controller 9."""

    def __init__(self) -> None:
        self.servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.image = given.cluster(1, 2)
        self.controller = Controller()
        ports = [server.getsockname()[1] for server in self.servers]
        self.be_registered(
            endpoints=tuple(Endpoint(f"L{port}", "127.0.0.1", port, 0) for port in ports), directories=DIRECTORIES
        )
        self.detector = FailureDetector(real_env(), 9, self.controller, lambda: self.image, lambda: -1)  # type: ignore[arg-type]

    @property
    def epoch(self) -> int:
        return self.image.brokers[1].epoch

    def be_registered(self, broker_id: int = 1, **changes: Any) -> None:
        brokers = {**self.image.brokers, broker_id: replace(self.image.brokers[broker_id], **changes)}
        self.image = replace(self.image, brokers=brokers)

    def let_in(self) -> None:
        delta = MetadataDelta(self.image)
        delta.changed_brokers[1] = None
        self.detector.publish(delta, self.image)

    async def has_answered(self) -> None:
        self.let_in()
        while self.detector._answered.get(1) != self.epoch:
            await asyncio.sleep(0.01)

    def ends(self) -> None:
        for server in self.servers:
            server.close()

    def beats(self, connection: object = "connection") -> None:
        self.detector.heard(connection, 1, self.epoch)

    def loses(self, connection: object = "connection") -> None:
        self.beats(connection)
        self.detector.lost(connection)

    def takes_over(self) -> None:
        self.controller.is_active = True
        for hears in self.controller.on_active:
            hears()

    async def is_succeeded(self, **changes: Any) -> bool:
        """By the next incarnation, which comes with what the one before had."""
        now = self.image.brokers[1]
        request = RegisterBroker(1, "cluster", UUID(int=99), now.endpoints, (), DIRECTORIES, is_remote=True)
        return await self.detector.is_succeeded_by(replace(request, **changes))


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_detector, "_PROBES_AFTER_S", (0.0,) * 5)
    monkeypatch.setattr(failure_detector, "_LOOKS_AFTER_S", (0.0,) * 3)
    monkeypatch.setattr(failure_detector, "_LOOKS_AGAIN_AFTER_S", 0.0)


def fenced_after(story: Callable[[World], Awaitable[None]]) -> list[int]:
    """Who was fenced when all that the story began has come to its end."""

    async def run() -> list[int]:
        world = World()
        await story(world)
        await world.detector._tasks.settle()
        world.ends()
        return world.controller.fenced

    return asyncio.run(asyncio.wait_for(run(), PATIENCE_S))


def test_a_process_that_is_gone_is_fenced_at_once() -> None:
    async def story(world: World) -> None:
        await world.has_answered()
        world.ends()
        world.loses()

    assert fenced_after(story) == [1]


def test_a_controller_that_takes_over_finds_who_died_before() -> None:
    async def story(world: World) -> None:
        world.controller.is_active = False
        await world.has_answered()
        world.ends()
        world.takes_over()

    assert fenced_after(story) == [1], "broker 2 has never answered here"


def test_one_that_keeps_dying_waits_for_its_session() -> None:
    async def story(world: World) -> None:
        await world.has_answered()
        world.ends()
        for life in range(12):
            world.loses(f"connection {life}")
            await world.detector._tasks.settle()

    assert fenced_after(story) == [1] * 10


# -- who would lead in the place of the dead must live


def never_answered() -> tuple[Endpoint, ...]:
    return (Endpoint("L", "127.0.0.1", 9, 0),)


def test_who_answers_may_lead_in_the_place_of_the_dead() -> None:
    async def story(world: World) -> None:
        await world.has_answered()
        with socket.create_server(("127.0.0.1", 0)) as other:
            world.be_registered(2, endpoints=(Endpoint("L", "127.0.0.1", other.getsockname()[1], 0),))
            world.controller.must_live = [2]
            world.ends()
            world.loses()
            await world.detector._tasks.settle()

    assert fenced_after(story) == [1]


def test_the_dead_wait_until_who_would_lead_is_heard() -> None:
    async def story(world: World) -> None:
        await world.has_answered()
        world.be_registered(2, endpoints=never_answered())
        world.controller.must_live = [2]
        world.controller.on_doubt = lambda: world.detector.heard("another", 2, world.image.brokers[2].epoch)
        world.detector.heard("another", 2, world.image.brokers[2].epoch)
        world.ends()
        world.loses()

    assert fenced_after(story) == [1]


def test_the_dead_wait_for_their_session_if_who_would_lead_is_never_heard() -> None:
    async def story(world: World) -> None:
        def session_is_over() -> None:
            world.be_registered(fenced=True)

        await world.has_answered()
        world.be_registered(2, endpoints=never_answered())
        world.controller.must_live = [2]
        world.controller.on_doubt = session_is_over
        world.ends()
        world.loses()

    assert fenced_after(story) == []


def test_those_who_die_together_are_fenced_together() -> None:
    async def story(world: World) -> None:
        world.controller.is_active = False
        await world.has_answered()
        world.be_registered(2, endpoints=world.image.brokers[1].endpoints)
        world.detector._answered[2] = world.image.brokers[2].epoch
        world.controller.must_live = [1, 2]
        world.ends()
        world.takes_over()

    assert fenced_after(story)[:2] == [1, 2]


async def the_next_incarnation_waits_too(world: World) -> None:
    world.ends()
    world.be_registered(2, endpoints=never_answered())
    world.controller.must_live = [2]
    assert not await world.is_succeeded()


async def one_that_listens_only_lost_a_connection(world: World) -> None:
    await world.has_answered()
    world.loses()


async def an_address_that_never_answered_here_proves_nothing(world: World) -> None:
    world.ends()
    world.let_in()
    world.loses()


async def all_listeners_must_refuse(world: World) -> None:
    await world.has_answered()
    world.servers[0].close()
    world.loses()


async def heartbeats_by_another_connection_end_the_suspicion(world: World) -> None:
    await world.has_answered()
    world.ends()
    world.loses("old")
    world.beats("new")
    world.detector.lost("old")


async def a_new_registration_is_not_blamed_for_the_old_one(world: World) -> None:
    await world.has_answered()
    world.ends()
    world.loses()
    world.be_registered(epoch=world.epoch + 100)


async def a_controller_that_is_not_active_fences_nobody(world: World) -> None:
    await world.has_answered()
    world.ends()
    world.controller.is_active = False
    world.loses()


async def a_broker_that_was_let_go_is_not_looked_for(world: World) -> None:
    await world.has_answered()
    world.ends()
    world.beats()
    world.detector.let_go(1)
    world.detector.lost("connection")


@pytest.mark.parametrize(
    "story",
    [
        one_that_listens_only_lost_a_connection,
        an_address_that_never_answered_here_proves_nothing,
        all_listeners_must_refuse,
        heartbeats_by_another_connection_end_the_suspicion,
        a_new_registration_is_not_blamed_for_the_old_one,
        a_controller_that_is_not_active_fences_nobody,
        a_broker_that_was_let_go_is_not_looked_for,
        the_next_incarnation_waits_too,
    ],
    ids=lambda story: story.__name__,
)
def test_nobody_is_fenced(story: Callable[[World], Awaitable[None]]) -> None:
    assert fenced_after(story) == []


# -- the next incarnation says that the one before is gone


def test_the_next_incarnation_need_not_wait_where_no_address_has_answered_before() -> None:
    async def story(world: World) -> None:
        world.ends()
        assert await world.is_succeeded()
        assert await world.is_succeeded(log_dirs=DIRECTORIES[1:]), "a disk was taken out"

    assert fenced_after(story) == [1, 1]


async def the_former_one_listens(world: World) -> None:
    assert not await world.is_succeeded()


async def the_former_one_is_heard(world: World) -> None:
    world.ends()
    world.beats()
    assert not await world.is_succeeded()


async def the_former_one_is_heard_a_moment_later(world: World) -> None:
    """As from a copied folder, by an address that means another machine here."""
    world.ends()
    asyncio.get_running_loop().call_later(0.05, world.beats)
    assert not await world.is_succeeded()


async def it_comes_from_another_folder(world: World) -> None:
    world.ends()
    assert not await world.is_succeeded(log_dirs=(UUID(int=73),))


async def it_comes_from_another_address(world: World) -> None:
    world.ends()
    assert not await world.is_succeeded(endpoints=(Endpoint("L", "127.0.0.1", 9, 0),))


async def nobody_is_registered_by_that_id(world: World) -> None:
    assert not await world.is_succeeded(broker_id=5)


async def this_controller_is_not_active(world: World) -> None:
    world.ends()
    world.controller.is_active = False
    assert not await world.is_succeeded()


@pytest.mark.parametrize(
    "story",
    [
        the_former_one_listens,
        the_former_one_is_heard,
        the_former_one_is_heard_a_moment_later,
        it_comes_from_another_folder,
        it_comes_from_another_address,
        nobody_is_registered_by_that_id,
        this_controller_is_not_active,
    ],
    ids=lambda story: story.__name__,
)
def test_two_with_one_id_are_not_taken_for_two_lives_of_one(story: Callable[[World], Awaitable[None]]) -> None:
    assert fenced_after(story) == []
