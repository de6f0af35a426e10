"""Brokers that were found dead are named to clients for as long as their sessions would have lasted."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ottla.broker.fallen_silent import FallenSilent
from ottla.metadata.image import BrokerImage

SESSION_MS = 9_000
ALIVE = BrokerImage(2, 1, UUID(int=2), (), {}, None, fenced=False, in_controlled_shutdown=False, directories=())
DEAD = replace(ALIVE, fenced=True)
LEAVING = replace(ALIVE, in_controlled_shutdown=True)
LEFT = replace(LEAVING, fenced=True)
STARTING = replace(DEAD, epoch=2, incarnation_id=UUID(int=3))


class Cluster:
    def __init__(self) -> None:
        self.now = 100.0
        env: Any = SimpleNamespace(loop=SimpleNamespace(time=lambda: self.now))
        self.silent = FallenSilent(env, lambda: SESSION_MS)

    def shows(self, *states: BrokerImage | None) -> frozenset[int]:
        for state in states:
            delta: Any = SimpleNamespace(changed_brokers={2: None})
            image: Any = SimpleNamespace(brokers={} if state is None else {2: state})
            self.silent.publish(delta, image)
        return self.silent.ids


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_who_dies_is_named_until_its_session_would_be_over(cluster: Cluster) -> None:
    assert cluster.shows(ALIVE, DEAD) == {2}
    cluster.now += SESSION_MS / 1000 - 0.001
    assert cluster.silent.ids == {2}
    cluster.now += 0.001
    assert cluster.silent.ids == set()


def test_who_is_restarted_at_once_is_named_throughout(cluster: Cluster) -> None:
    assert cluster.shows(ALIVE, STARTING) == {2}
    assert cluster.shows(DEAD, STARTING) == {2}
    assert cluster.shows(replace(STARTING, fenced=False)) == set()  # named as any other


def test_the_session_begins_anew_with_each_life(cluster: Cluster) -> None:
    cluster.shows(ALIVE, DEAD)
    cluster.now += 8
    cluster.shows(ALIVE, DEAD)
    cluster.now += 8
    assert cluster.silent.ids == {2}


@pytest.mark.parametrize(
    "states",
    [
        pytest.param((ALIVE, LEAVING, LEFT), id="it has shut down in order"),
        pytest.param((ALIVE, LEFT), id="and both was learnt at once"),
        pytest.param((ALIVE, DEAD, None), id="it was unregistered"),
        pytest.param((DEAD,), id="it was dead before"),
        pytest.param((STARTING, DEAD), id="it never got so far"),
    ],
)
def test_others_are_not_named(cluster: Cluster, states: tuple[BrokerImage | None, ...]) -> None:
    assert cluster.shows(*states) == set()
