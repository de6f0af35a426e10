"""Topics that the broker has created by itself."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.auto_create import AutoCreate
from ottla.metadata.controller.requests import NewTopic
from ottla.model.errors import ErrorCode
from ottla.model.names import REMOTE_METADATA_TOPIC


class Controller:
    """Answers with one error after the other, the last one for ever."""

    def __init__(self, *errors: tuple[ErrorCode, str]) -> None:
        self._errors = list(errors)

    async def submit(self, request: Any) -> Any:
        code, message = self._errors.pop(0) if len(self._errors) > 1 else self._errors[0]
        return [
            SimpleNamespace(name=topic.name, error=SimpleNamespace(code=code, message=message))
            for topic in request.topics
        ]


def asked(controller: Controller, name: str, times: int) -> None:
    async def scenario() -> None:
        creating = AutoCreate(cast(Any, controller), {REMOTE_METADATA_TOPIC: lambda: NewTopic(REMOTE_METADATA_TOPIC)})
        for _ in range(times):
            creating.start([name])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await creating.stop()

    asyncio.run(scenario())


def test_why_a_topic_of_the_broker_cannot_be_created_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """It is asked for several times a second until it is there."""
    few = (ErrorCode.invalid_replication_factor, "only 1 broker is registered")
    asked(Controller(few, few, (ErrorCode.policy_violation, "not on a Sunday")), REMOTE_METADATA_TOPIC, 5)
    assert [record.getMessage() for record in caplog.records] == [
        f"{REMOTE_METADATA_TOPIC}, which is needed here, could not be created: only 1 broker is registered",
        f"{REMOTE_METADATA_TOPIC}, which is needed here, could not be created: not on a Sunday",
    ]


def test_that_of_a_client_is_told_each_time_it_asks(caplog: pytest.LogCaptureFixture) -> None:
    asked(Controller((ErrorCode.invalid_replication_factor, "only 1 broker is registered")), "orders", 3)
    assert len(caplog.records) == 3
    assert "orders could not be created on a client's first use" in caplog.text
