"""What the controller is told of log dirs, when it does not listen at first."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import pytest
from tests.waiting import PATIENCE_S

from ottla.broker import directories
from ottla.broker.directories import Directories
from ottla.metadata.controller.requests import AssignReplicasToDirs
from ottla.model.errors import ErrorCode, KafkaError

TOPIC, DIR, OTHER = UUID(int=1), UUID(int=2), UUID(int=3)


class Controller:
    def __init__(self, refusals: int, code: ErrorCode = ErrorCode.not_controller) -> None:
        self.heard: list[Any] = []
        self._refusals = refusals
        self._code = code

    async def submit(self, request: Any) -> Any:
        await asyncio.sleep(0)
        if self._refusals:
            self._refusals -= 1
            raise KafkaError(self._code, "not now")
        self.heard.append(request)
        return ()


def test_what_the_controller_did_not_take_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directories, "_AGAIN_AFTER_S", 0.01)

    async def story() -> None:
        controller = Controller(refusals=3)
        failed: list[UUID] = []
        telling: Any = Directories(controller, 1, lambda: 7, failed.extend)
        telling.assign(TOPIC, 0, DIR)
        telling.assign(TOPIC, 1, DIR)
        telling.fail(OTHER)
        await asyncio.sleep(0)
        telling.assign(TOPIC, 1, OTHER)  # while the first is under way: the newer one counts
        while not failed:
            await asyncio.sleep(0.005)
        await telling.stop()
        assigned: dict[int, UUID] = {}
        for request in controller.heard:
            if isinstance(request, AssignReplicasToDirs):
                assigned.update((row.partition, row.directory) for row in request.assignments)
        assert assigned == {0: DIR, 1: OTHER}
        assert failed == [OTHER]  # when all that was put into it is told

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_a_broker_is_let_in_only_when_the_controller_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have lost a partition with its dir: elected for it, it would lead with an empty log."""
    monkeypatch.setattr(directories, "_AGAIN_AFTER_S", 0.01)

    async def story() -> None:
        controller = Controller(refusals=2)
        telling: Any = Directories(controller, 1, lambda: 7, lambda _: None)
        telling.assign(TOPIC, 0, DIR)

        await telling.settle()

        assert len(controller.heard) == 1
        await telling.settle()
        await telling.stop()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_a_cluster_that_knows_of_no_log_dirs_is_not_waited_for() -> None:
    async def story() -> None:
        controller = Controller(refusals=1, code=ErrorCode.unsupported_version)
        telling: Any = Directories(controller, 1, lambda: 7, lambda _: None)
        telling.assign(TOPIC, 0, DIR)

        await telling.settle()

        assert controller.heard == []
        await telling.stop()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
