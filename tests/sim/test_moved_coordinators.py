"""Coordinators of a simulated cluster move, and that is counted: what no seed sees is proved by none."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.groups.coordinator import Coordinator
from ottla.sim.workload.client import NoAnswer


class Client:
    """Whoever is asked says that the next of these coordinates, and none of them ever answers."""

    def __init__(self, *nodes: int) -> None:
        self.oracle = SimpleNamespace(counts=Counter[str]())
        self._nodes = iter(nodes)

    async def ask_any(self, *_: object) -> Any:
        row = SimpleNamespace(error_code=ErrorCode.none, node_id=next(self._nodes), host="n", port=9092)
        return SimpleNamespace(coordinators=[row])

    async def ask(self, *_: object) -> Any:
        raise NoAnswer("gone")

    def learn(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(("nodes", "moves"), [((1, 1, 1), 0), ((1, 2, 2), 1), ((1, 2, 1), 2)])
def test_a_coordinator_that_is_another_after_it_fell_silent_has_moved(nodes: tuple[int, ...], moves: int) -> None:
    client: Any = Client(*nodes)
    coordinator = Coordinator(client, "g")

    async def ask_on() -> None:
        for _ in nodes:
            with pytest.raises(NoAnswer):
                await coordinator.ask(0, 0, {})

    asyncio.run(ask_on())
    assert client.oracle.counts["coordinators that moved"] == moves
