"""Producer ids, handed out from a block that the controller gave to this broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from ottla.metadata.controller.requests import AllocateProducerIds
from ottla.metadata.controller_port import ControllerPort
from ottla.model.errors import KafkaError

_log = logging.getLogger("ottla.broker")
_ASK_AHEAD: Final = 10  # the next block is asked for when only one in so many ids is left


class ProducerIds:
    """An id is given once; those left in a block when the node stops are never given at all."""

    def __init__(self, controller: ControllerPort, broker_id: int, broker_epoch: Callable[[], int]) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._ask_ahead_at = 0
        self._next_block: asyncio.Task[None] | None = None
        self._reserve: tuple[int, int] | None = None

    def take(self) -> int | None:
        """An id at once, or None: then `wait` for the next block and try again."""
        if self._next == self._end and self._reserve is not None:
            self._next, self._end = self._reserve
            self._ask_ahead_at = self._end - (self._end - self._next) // _ASK_AHEAD
            self._reserve = None
        if self._next == self._end:
            return None
        taken = self._next
        self._next += 1
        if self._next >= self._ask_ahead_at and self._reserve is None:
            self._ask()
        return taken

    @property
    def is_empty(self) -> bool:
        """Whether the next who wants an id has to wait."""
        return self._next == self._end and self._reserve is None

    async def wait(self) -> None:
        """Until there is a block again. KafkaError if the controller gave none."""
        await asyncio.shield(self._ask())

    def _ask(self) -> asyncio.Task[None]:
        if self._next_block is None:
            self._next_block = asyncio.get_running_loop().create_task(self._allocate(), name="producer ids")
            self._next_block.add_done_callback(self._asked)
        return self._next_block

    async def _allocate(self) -> None:
        block = await self._controller.submit(AllocateProducerIds(self._broker_id, self._broker_epoch()))
        self._reserve = (block.first, block.first + block.size)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._next_block = None
        if not task.cancelled() and (error := task.exception()) is not None:
            level = logging.WARNING if isinstance(error, KafkaError) else logging.ERROR
            _log.log(level, "the controller gave no producer ids: %s", error)

    def stop(self) -> None:
        if self._next_block is not None:
            self._next_block.cancel()
