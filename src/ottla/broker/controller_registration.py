"""A controller tells the cluster where it listens and what it can do (KIP-919): tools find it by that.

As Kafka's: it registers when the metadata does not name this very start of it, and is tried until that is so.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from ottla.env.backoff import Backoff
from ottla.env.tasks import Tasks
from ottla.metadata.controller.requests import RegisterController
from ottla.metadata.image import Endpoint
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import Node

_log = logging.getLogger("ottla.controller")
_AGAIN: Final = Backoff(100, 30_000, 0.02)


class ControllerRegistration:
    def __init__(self, node: Node, endpoints: tuple[Endpoint, ...]) -> None:
        self._node = node
        features = tuple(node.software.features.items())
        self._request = RegisterController(node.config.node_id, node.env.random.uuid(), endpoints, features)
        self._tasks = Tasks(lambda error: _log.error("this controller could not register: %s", error))

    def start(self) -> None:
        self._tasks.start(self._register(), "register controller")

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _register(self) -> None:
        failures = 0
        while True:
            try:
                await self._node.controller.submit(self._request)
            except KafkaError as error:
                failures += 1
                # a cluster of an older metadata.version knows no registrations of controllers: until it is upgraded
                level = logging.DEBUG if error.code is ErrorCode.unsupported_version else logging.WARNING
                _log.log(level, "this controller could not register, it is tried again: %s", error)
                await asyncio.sleep(_AGAIN.seconds(failures, self._node.env.random))
            else:
                return
