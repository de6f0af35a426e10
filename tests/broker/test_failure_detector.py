"""Dead brokers are found at once, living ones never: real sockets, a controller that only notes what it is asked."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
from tests.metadata import given
from tests.waiting import PATIENCE_S

from ottla.broker import failure_detector
from ottla.broker.failure_detector import FailureDetector
from ottla.broker.run import real_env
from ottla.metadata.controller.requests import FenceBroker
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import Endpoint


class Controller:
    def __init__(self) -> None:
        self.is_active = True
        self.on_active: list[Callable[[], None]] = []
        self.fenced: list[int] = []

    async def submit(self, request: FenceBroker) -> None:
        self.fenced.append(request.broker_id)


class World:
    """Brokers 1 and 2; this is controller 9."""

    def __init__(self, *ports: int) -> None:
        self.image = given.cluster(1, 2)
        endpoints = tuple(Endpoint(f"L{port}", "127.0.0.1", port, 0) for port in ports)
        self.image = replace(
            self.image, brokers={**self.image.brokers, 1: replace(self.image.brokers[1], endpoints=endpoints)}
        )
        self.controller = Controller()
        self.detector = FailureDetector(real_env(), 9, self.controller, lambda: self.image)  # type: ignore[arg-type]

    @property
    def epoch(self) -> int:
        return self.image.brokers[1].epoch

    def let_in(self) -> None:
        delta = MetadataDelta(self.image)
        delta.changed_brokers[1] = None
        self.detector.publish(delta, self.image)

    async def has_answered(self) -> None:
        self.let_in()
        while self.detector._answered.get(1) != self.epoch:
            await asyncio.sleep(0.01)

    def loses(self, connection: object) -> None:
        self.detector.heard(connection, 1, self.epoch)
        self.detector.lost(connection)


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failure_detector, "_PROBES_AFTER_S", (0.0,) * 5)
    monkeypatch.setattr(failure_detector, "_LOOKS_AFTER_S", (0.0,) * 3)


def listening() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


def port_of(server: socket.socket) -> int:
    port: int = server.getsockname()[1]
    return port


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_a_process_that_is_gone_is_fenced_at_once() -> None:
    async def story() -> None:
        server = listening()
        world = World(port_of(server))
        await world.has_answered()
        server.close()
        world.loses("connection")
        await world.detector._tasks.settle()

        assert world.controller.fenced == [1]

    run(story)


def test_a_broker_that_listens_only_lost_a_connection() -> None:
    async def story() -> None:
        with listening() as server:
            world = World(port_of(server))
            await world.has_answered()
            world.loses("connection")
            await world.detector._tasks.settle()

        assert world.controller.fenced == []

    run(story)


def test_an_address_that_never_answered_here_proves_nothing() -> None:
    async def story() -> None:
        server = listening()
        world = World(port_of(server))
        server.close()
        world.let_in()
        world.loses("connection")
        await world.detector._tasks.settle()

        assert world.controller.fenced == []

    run(story)


def test_all_listeners_must_refuse() -> None:
    async def story() -> None:
        with listening() as one:
            other = listening()
            world = World(port_of(other), port_of(one))
            await world.has_answered()
            other.close()
            world.loses("connection")
            await world.detector._tasks.settle()

        assert world.controller.fenced == []

    run(story)


def test_heartbeats_by_another_connection_end_the_suspicion() -> None:
    async def story() -> None:
        server = listening()
        world = World(port_of(server))
        await world.has_answered()
        server.close()
        world.loses("old")
        world.detector.heard("new", 1, world.epoch)
        world.detector.lost("old")
        await world.detector._tasks.settle()

        assert world.controller.fenced == []

    run(story)


def test_a_new_registration_is_not_blamed_for_the_old_one() -> None:
    async def story() -> None:
        server = listening()
        world = World(port_of(server))
        await world.has_answered()
        server.close()
        world.loses("connection")
        again = replace(world.image.brokers[1], epoch=world.epoch + 100)
        world.image = replace(world.image, brokers={**world.image.brokers, 1: again})
        await world.detector._tasks.settle()

        assert world.controller.fenced == []

    run(story)


def test_a_controller_that_takes_over_finds_who_died_before() -> None:
    async def story() -> None:
        server = listening()
        world = World(port_of(server))
        world.controller.is_active = False
        await world.has_answered()
        server.close()
        world.controller.is_active = True
        for hears in world.controller.on_active:
            hears()
        await world.detector._tasks.settle()

        assert world.controller.fenced == [1], "broker 2 has never answered here"

    run(story)


def test_one_that_is_not_active_fences_nobody() -> None:
    async def story() -> None:
        server = listening()
        world = World(port_of(server))
        await world.has_answered()
        server.close()
        world.controller.is_active = False
        world.loses("connection")
        await world.detector._tasks.settle()

        assert world.controller.fenced == []

    run(story)


def test_a_broker_that_was_let_go_is_not_looked_for() -> None:
    async def story() -> None:
        server = listening()
        world = World(port_of(server))
        await world.has_answered()
        server.close()
        world.detector.heard("connection", 1, world.epoch)
        world.detector.let_go(1)
        world.detector.lost("connection")
        await world.detector._tasks.settle()

        assert world.controller.fenced == []

    run(story)


def test_one_that_keeps_dying_waits_for_its_session() -> None:
    async def story() -> None:
        server = listening()
        world = World(port_of(server))
        await world.has_answered()
        server.close()
        for life in range(5):
            world.loses(f"connection {life}")
            await world.detector._tasks.settle()

        assert world.controller.fenced == [1, 1, 1]

    run(story)
