"""An idempotent producer: what it sends again and again must not be stored twice."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Final, Protocol

from ottla.env.ports import Env
from ottla.model.errors import ErrorCode
from ottla.sim.journal import Identity, Journal
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.batches import Batch, Values
from ottla.sim.workload.client import KnownTopic

_FORGOTTEN: Final = (
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.unknown_producer_id,
    ErrorCode.invalid_producer_epoch,
)


class ProducingClient(Protocol):
    name: str
    env: Env
    random: Random
    stopping: bool

    async def pause(self, shortest_s: float, longest_s: float) -> None: ...


class IdempotentSender(ABC):
    """Keeps up to `depth` batches under way in one partition, and sends them again, in order, as long as it takes.

    How they get there, and what excuses a producer that was forgotten, is a subclass's to say.
    """

    def __init__(
        self,
        client: ProducingClient,
        journal: Journal,
        topic: KnownTopic,
        partition: int,
        *,
        version: int,
        depth: int,
        busy: float,
    ) -> None:
        self._journal = journal
        self._topic = topic
        self._partition = PartitionId(topic.id, partition)
        self._depth = depth
        self._busy = busy
        self._sender = client
        self._values = Values(client.name, client.random, version)
        self._window: deque[Batch] = deque()
        self._producer_id = -1
        self._sequence = 0
        self.is_over = False
        """The topic is gone."""

    @abstractmethod
    async def _new_id(self) -> int | None:
        """A producer id; None if there is none to be had now."""

    @abstractmethod
    async def _send(self, batches: Sequence[Batch]) -> list[ErrorCode | None]:
        """Sends each in a request of its own, in order; None where there was no answer."""

    @abstractmethod
    def _may_be_forgotten(self) -> bool:
        """Whether something that a producer must expect has happened since it got its id."""

    @abstractmethod
    async def _after_errors(self, codes: Sequence[ErrorCode | None]) -> None:
        """Before it is tried again."""

    async def run(self) -> None:
        client = self._sender
        while not self.is_over and (self._window or not client.stopping):
            if self._producer_id < 0 and not await self._take_id():
                await client.pause(0.05, 0.3)
                continue
            self._fill()
            codes = await self._send(self._window)
            if not self._settle(codes):
                await self._after_errors(codes)
                await client.pause(0.02, 0.3)
            await client.pause(0.0, self._busy)

    async def _take_id(self) -> bool:
        producer_id = await self._new_id()
        if producer_id is None:
            return False
        self._journal.gives_producer_id(producer_id, self._sender.name)
        self._producer_id, self._sequence = producer_id, 0
        for batch in self._window:
            batch.identity = self._next_identity(len(batch.values))
        return True

    def _next_identity(self, count: int) -> Identity:
        identity = (self._producer_id, 0, self._sequence)
        self._sequence += count
        return identity

    def _fill(self) -> None:
        while len(self._window) < self._depth and not self._sender.stopping:
            batch = self._values.batch(self._topic.name, self._partition, self._sender.env.clock.now_ms())
            batch.identity = self._next_identity(len(batch.values))
            self._window.append(batch)

    def _settle(self, codes: Sequence[ErrorCode | None]) -> bool:
        """Drops what is acknowledged. False if something is left to send again."""
        left = [(batch, code) for batch, code in zip(self._window, codes, strict=True) if code is not ErrorCode.none]
        self._window = deque(batch for batch, _ in left)
        if not left:
            return True
        batch, code = left[0]
        if code in _FORGOTTEN:
            self._check_forgotten(batch, code)
            self._producer_id = -1
        return False

    def _check_forgotten(self, batch: Batch, code: ErrorCode | None) -> None:
        """With one batch under way, not even a restart hides the last one.

        (Snapshots keep the last batch of a producer only, as Kafka's do: of several under way those before it are
        no longer recognised after a restart.)
        """
        self._journal.counts["producers forgotten"] += 1
        if self._depth == 1 and not self._may_be_forgotten():
            self._journal.complain(
                f"{self._sender.name} was told {code and code.name} for {batch.identity} without a cause"
            )
