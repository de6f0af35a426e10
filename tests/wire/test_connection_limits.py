"""Who is let in: Kafka's rules, as a table and as stories."""

from __future__ import annotations

from math import inf

import pytest

from ottla.wire.connection_limits import ConnectionLimits, Limits


class World:
    def __init__(self, limits: Limits, *listeners: str) -> None:
        self.now = 100.0
        self.limits = ConnectionLimits(lambda: self.now)
        for name in listeners or ("A",):
            self.limits.add_listener(name)
        self.limits.configure(limits)

    def come(self, listener: str = "A", address: str = "10.0.0.1") -> bool | float:
        """Whether he is let in, or how long he has to wait for that."""
        wait = self.limits.wait(listener)
        return wait or self.limits.accepted(listener, address)


def test_without_limits_everybody_comes_in() -> None:
    world = World(Limits())
    assert all(world.come() is True for _ in range(1000))
    assert (world.limits.total, world.limits.by_listener) == (1000, {"A": 1000})


def test_when_there_are_enough_the_next_waits_until_one_goes() -> None:
    world, told = World(Limits(in_all=2)), []
    world.limits.on_room.append(lambda: told.append(1))
    assert [world.come(), world.come(), world.come()] == [True, True, inf]
    world.limits.gone("A", "10.0.0.1")
    assert told and world.come() is True
    assert world.come() == inf


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    world = World(Limits(in_all=3, of_listeners={"A": 1}), "A", "B")
    assert [world.come("A"), world.come("A"), world.come("B"), world.come("B"), world.come("B")] == [
        True, inf, True, True, inf,
    ]  # fmt: skip


def test_one_address_has_its_share_and_some_have_another() -> None:
    world = World(Limits(of_an_address=2, of_addresses={"10.0.0.9": 1, "::1": 3}))
    assert [world.come(address="10.0.0.1") for _ in range(3)] == [True, True, False]
    assert [world.come(address="::ffff:10.0.0.9") for _ in range(2)] == [True, False]
    assert [world.come(address="::1") for _ in range(4)] == [True, True, True, False]
    assert (world.limits.total, world.limits.refused) == (6, 3)
    world.limits.gone("A", "10.0.0.1")
    assert world.come(address="10.0.0.1") is True


def test_the_listener_between_nodes_has_room_and_another_loses_one() -> None:
    world, excess = World(Limits(in_all=2, protected="B"), "A", "B"), []
    world.limits.on_excess = lambda: excess.append(world.limits.excess)
    assert [world.come("A"), world.come("A"), world.come("A"), world.come("B"), world.come("B")] == [
        True, True, inf, True, True,
    ]  # fmt: skip
    assert excess == [1, 2]


def test_the_only_listener_is_not_protected() -> None:
    world = World(Limits(in_all=1, protected="A"))
    assert [world.come(), world.come()] == [True, inf]


def test_a_lower_limit_sheds_and_a_higher_one_lets_in() -> None:
    world, excess, told = World(Limits()), [], []
    world.limits.on_excess = lambda: excess.append(world.limits.excess)
    world.limits.on_room.append(lambda: told.append(world.limits.wait("A")))
    for _ in range(5):
        world.come()
    world.limits.configure(Limits(in_all=3))
    assert excess == [2]
    world.limits.configure(Limits(in_all=6))
    assert told == [inf, 0.0]


def test_connections_come_at_a_rate_with_room_for_ten_seconds() -> None:
    world = World(Limits(rate=2))
    assert [world.come() for _ in range(20)] == [True] * 20
    assert world.come() == pytest.approx(0.5)
    world.now += 0.3
    assert world.come() == pytest.approx(0.2)
    world.now += 0.2
    assert world.come() is True
    assert world.come() == pytest.approx(0.5)
    world.now += 100
    assert [world.come() is True for _ in range(21)] == [True] * 20 + [False]


@pytest.mark.parametrize("rate", [0, 1])
def test_nobody_waits_for_more_than_a_second(rate: int) -> None:
    world = World(Limits(rate=rate))
    while world.come() is True:
        pass
    world.now += 1.0
    assert world.come() is True
    assert world.come() == pytest.approx(1.0)


def test_a_listener_may_have_a_rate_of_its_own() -> None:
    world = World(Limits(rates_of_listeners={"A": 1}), "A", "B")
    assert [world.come("A") is True for _ in range(11)] == [True] * 10 + [False]
    assert all(world.come("B") is True for _ in range(100))


def test_a_rate_that_stays_is_not_forgotten_when_something_else_changes() -> None:
    world = World(Limits(rate=1))
    for _ in range(10):
        world.come()
    world.limits.configure(Limits(rate=1, in_all=1000))
    assert world.come() is not True
