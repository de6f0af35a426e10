"""Finds dead brokers at once, where Kafka waits for their session to run out.

    the connection that brought a broker's heartbeats ends, and no other has taken its place
    + all addresses of that registration refuse to be dialled
    = its process is gone: the broker is fenced and its session ends, so that it may register again right away

A host that vanishes without a word refuses nothing; nor does a process that is stopped. Both are found by the session,
as in Kafka. What keeps a broker that lives from being fenced:

- A refusal counts only if the address has answered before, here, in the same registration. An address that means
  something else from where this controller stands (`localhost`, say) proves nothing.
- All listeners of the registration must refuse; any other answer, or none, is no proof.
- A heartbeat over another connection, or another registration, ends the suspicion.

A broker that keeps dying is found so three times a minute; after that it waits for its session, and so do those who
would have to move leaders for it each time. Every controller learns which addresses answer, so that one that takes over
can tell: it dials all brokers that are not fenced.

A controller that has just started knows of no address that answered. There the next incarnation is the witness: it has
a log dir of the one before, which only one process can hold, and the same addresses; if they refuse and the one before
is not heard of, that one is gone (`is_succeeded_by`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.metadata.controller.requests import FenceBroker, RegisterBroker
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage
from ottla.metadata.local_controller import LocalController
from ottla.model.errors import KafkaError

_log = logging.getLogger("ottla.controller")
_DIAL_WITHIN_S: Final = 1.0
_PROBES_AFTER_S: Final = (0.05, 0.2, 1.0, 5.0, 30.0)  # a broker that was let in begins to listen a moment later
# A suspect is dialled until it is heard again: a process that ends may close its connections before its listeners.
_LOOKS_AFTER_S: Final = (0.0, 0.02, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0)
# Between these a live broker with the same id, from a copied folder, has time to be heard.
_LOOKS_FOR_SUCCESSOR_AFTER_S: Final = (0.0, 0.25)
_FAST: Final = 3  # so often a broker is found dead at once
_WITHIN_S: Final = 60.0


class Incarnation(NamedTuple):
    broker_id: int
    epoch: int


class Dialled(Enum):
    ANSWERED = "answered"
    REFUSED = "refused"
    SILENT = "silent"


class FailureDetector:
    """`image` is what is committed; `connection` stands for whatever brings heartbeats, and is only compared."""

    def __init__(self, env: Env, own_id: int, controller: LocalController, image: Callable[[], MetadataImage]) -> None:
        self.found = 0
        """Brokers whose process was gone."""
        self._env = env
        self._own_id = own_id
        self._controller = controller
        self._image = image
        self._brought_by: dict[int, tuple[Any, Incarnation]] = {}
        self._answered: dict[int, int] = {}  # broker, and the epoch in which its address has answered
        self._found_dead: dict[int, deque[float]] = {}
        self._tasks = Tasks(lambda error: _log.error("The failure detector failed: %s", error, exc_info=error))
        controller.on_active.append(self._took_over)

    # -- what happens

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """A broker that was let in is dialled once, to know that a refusal will mean something."""
        for broker_id in delta.changed_brokers:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.id == self._own_id or broker.fenced or self._has_answered(broker):
                continue
            self._tasks.start(self._probe(Incarnation(broker.id, broker.epoch)), f"probe broker {broker_id}")

    def heard(self, connection: Any, broker_id: int, epoch: int) -> None:
        """A heartbeat has come, by a connection that is open now."""
        if self._registered(Incarnation(broker_id, epoch)) is not None:
            self._brought_by[broker_id] = connection, Incarnation(broker_id, epoch)

    def let_go(self, broker_id: int) -> None:
        """It may end: that will be no news."""
        self._brought_by.pop(broker_id, None)

    def lost(self, connection: Any) -> None:
        for broker_id, (brought_by, incarnation) in list(self._brought_by.items()):
            if brought_by is connection:
                del self._brought_by[broker_id]
                if self._controller.is_active:
                    self._suspect(incarnation)

    async def is_succeeded_by(self, request: RegisterBroker) -> bool:
        """Whether the incarnation that keeps this one from registering is gone; if so its session has ended now."""
        broker = self._image().brokers.get(request.broker_id)
        if broker is None or not _is_next_life(broker, request):
            return False
        incarnation = Incarnation(broker.id, broker.epoch)
        for seconds in _LOOKS_FOR_SUCCESSOR_AFTER_S:
            await asyncio.sleep(seconds)
            if self._suspected(incarnation) is None or await self._dial_all(broker) is not Dialled.REFUSED:
                return False
        if self._suspected(incarnation) is None:
            return False
        _log.info("broker %d is here again, and nobody listens at its addresses: its former session ends", broker.id)
        await self._end_session(broker)
        return True

    def _took_over(self) -> None:
        for broker in self._image().brokers.values():
            if not broker.fenced and broker.id != self._own_id:
                self._suspect(Incarnation(broker.id, broker.epoch))

    async def stop(self) -> None:
        await self._tasks.stop()

    # -- what follows

    def _suspect(self, suspect: Incarnation) -> None:
        self._tasks.start(self._examine(suspect), f"examine broker {suspect.broker_id}")

    async def _examine(self, suspect: Incarnation) -> None:
        for seconds in _LOOKS_AFTER_S:
            await asyncio.sleep(seconds)
            broker = self._suspected(suspect)
            if broker is None:
                return
            outcome = await self._dial_all(broker)
            if outcome is Dialled.REFUSED and self._has_answered(broker) and self._suspected(suspect) is not None:
                await self._fence(broker)
                return

    def _suspected(self, suspect: Incarnation) -> BrokerImage | None:
        """The broker, as long as nothing was heard of it. (One that is fenced may still have a session to end.)"""
        if suspect.broker_id in self._brought_by or not self._controller.is_active:
            return None
        return self._registered(suspect)

    async def _fence(self, broker: BrokerImage) -> None:
        if self._is_flapping(broker.id):
            _log.warning("broker %d has died again: this time its session is awaited", broker.id)
            return
        where = ", ".join(f"{endpoint.host}:{endpoint.port}" for endpoint in broker.endpoints)
        _log.warning("broker %d is gone (its connection ended, and nobody listens at %s): fenced", broker.id, where)
        self.found += 1
        await self._end_session(broker)

    async def _end_session(self, broker: BrokerImage) -> None:
        try:
            await self._controller.submit(FenceBroker(broker.id, broker.epoch))
        except KafkaError as error:
            _log.info("broker %d was not fenced: %s", broker.id, error)

    async def _probe(self, incarnation: Incarnation) -> None:
        for seconds in _PROBES_AFTER_S:
            await asyncio.sleep(seconds)
            broker = self._registered(incarnation)
            if broker is None or broker.fenced or self._has_answered(broker):
                return
            await self._dial_all(broker)

    def _registered(self, incarnation: Incarnation) -> BrokerImage | None:
        broker = self._image().brokers.get(incarnation.broker_id)
        return broker if broker is not None and broker.epoch == incarnation.epoch else None

    def _has_answered(self, broker: BrokerImage) -> bool:
        return self._answered.get(broker.id) == broker.epoch

    def _is_flapping(self, broker_id: int) -> bool:
        now = self._env.loop.time()
        times = self._found_dead.setdefault(broker_id, deque())
        while times and times[0] < now - _WITHIN_S:
            times.popleft()
        if len(times) >= _FAST:
            return True
        times.append(now)
        return False

    async def _dial_all(self, broker: BrokerImage) -> Dialled:
        """REFUSED only if every listener does."""
        outcome = Dialled.REFUSED if broker.endpoints else Dialled.SILENT
        for endpoint in broker.endpoints:
            match await self._dial(endpoint):
                case Dialled.ANSWERED:
                    self._answered[broker.id] = broker.epoch
                    return Dialled.ANSWERED
                case Dialled.SILENT:
                    outcome = Dialled.SILENT
        return outcome

    async def _dial(self, endpoint: Endpoint) -> Dialled:
        try:
            async with asyncio.timeout(_DIAL_WITHIN_S):
                transport, _ = await self._env.network.connect(asyncio.Protocol, endpoint.host, endpoint.port)
        except ConnectionRefusedError:
            return Dialled.REFUSED
        except (OSError, TimeoutError):
            return Dialled.SILENT
        transport.abort()
        return Dialled.ANSWERED


def _is_next_life(broker: BrokerImage, request: RegisterBroker) -> bool:
    return request.endpoints == broker.endpoints and not set(request.log_dirs).isdisjoint(broker.directories)
