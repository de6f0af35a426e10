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

Nor may it cost a record. Sessions end in the order in which brokers were last heard, so Kafka fences one that vanished
before it fences one that died after it. Here the later death may be known first, and the one that vanished, perhaps
with its power and the end of its logs, must not lead in its place:

- Before the dead are fenced, all others are dialled: only who answers, or is heard, may lead what they led. A broker
  listens only after it was let in, so that it is the registered one who answers.
- If a partition would be left to somebody who does not answer, the dead wait: until he is heard or fenced, or their own
  sessions are over.
- Those who are found dead together are fenced in one decision. Nobody of them is elected, and where nobody else is left
  the last leader is the one to come back.

A broker that keeps dying is found so ten times a minute; after that it waits for its session, and so do those who
would have to move leaders for it each time. Every controller learns which addresses answer, so that one that takes over
can tell: it dials all brokers that are not fenced.

A controller that has just started knows of no address that answered. There the next incarnation is the witness: it has
a log dir of the one before, which only one process can hold, and the same addresses; if they refuse and the one before
is not heard of, that one is gone (`is_succeeded_by`). So is that of the broker in the controller's own process.
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
from ottla.metadata.controller.requests import FenceDeadBrokers, RegisterBroker
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import BrokerImage, Endpoint, MetadataImage
from ottla.metadata.local_controller import LocalController
from ottla.model.errors import KafkaError

_log = logging.getLogger("ottla.controller")
_DIAL_WITHIN_S: Final = 1.0
_ALL_ANSWER_WITHIN_S: Final = 0.1  # those who live, usually; who is slower is waited for only if he is needed
_PROBES_AFTER_S: Final = (0.05, 0.2, 1.0, 5.0, 30.0)  # a broker that was let in begins to listen a moment later
# A suspect is dialled until it is heard again: a process that ends may close its connections before its listeners.
_LOOKS_AFTER_S: Final = (0.0, 0.02, 0.1, 0.3, 0.6, 1.0, 2.0, 4.0)
_LOOKS_AGAIN_AFTER_S: Final = 0.25  # while the dead have to wait for others
# Between these a live broker with the same id, from a copied folder, has time to be heard.
_LOOKS_FOR_SUCCESSOR_AFTER_S: Final = (0.0, 0.25)
_TRIES_FOR_SUCCESSOR: Final = 4
_FAST: Final = 10  # so often a broker is found dead at once: one that dies while it starts is soon beyond that
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

    def __init__(
        self,
        env: Env,
        own_id: int,
        controller: LocalController,
        image: Callable[[], MetadataImage],
        own_epoch: Callable[[], int],
    ) -> None:
        self.found = 0
        """Brokers whose process was gone."""
        self._env = env
        self._own_id = own_id
        self._own_epoch = own_epoch
        self._controller = controller
        self._image = image
        self._brought_by: dict[int, tuple[Any, Incarnation]] = {}
        self._answered: dict[int, int] = {}  # broker, and the epoch in which its address has answered
        self._heard_at: dict[int, float] = {}
        self._dead: dict[Incarnation, float] = {}  # not fenced yet, and since when it is known
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
            self._heard_at[broker_id] = self._env.loop.time()
            self._dead.pop(Incarnation(broker_id, epoch), None)

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
        if incarnation not in self._dead:
            for seconds in _LOOKS_FOR_SUCCESSOR_AFTER_S:
                await asyncio.sleep(seconds)
                if self._suspected(incarnation) is None or await self._dial_all(broker) is not Dialled.REFUSED:
                    return False
            if self._suspected(incarnation) is None:
                return False
            _log.info("broker %d is here again, and nobody listens at its addresses", broker.id)
            self._is_dead(incarnation)
        for _ in range(_TRIES_FOR_SUCCESSOR):
            if await self._fence(incarnation, _ALL_ANSWER_WITHIN_S):
                return True
            await asyncio.sleep(_LOOKS_AGAIN_AFTER_S)  # others who died with it may be on their way as well
        return False

    def _took_over(self) -> None:
        self._dead.clear()
        for broker in self._image().brokers.values():
            if not broker.fenced and not self._is_own(broker):
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
            if await self._is_gone(broker) and self._suspected(suspect) is not None:
                if self._is_flapping(broker.id):
                    _log.warning("broker %d has died again: this time its session is awaited", broker.id)
                else:
                    self._is_dead(suspect)
                    await self._bury(suspect)
                return

    async def _bury(self, dead: Incarnation) -> None:
        """As soon as it is safe, or until its session is over."""
        patience = _ALL_ANSWER_WITHIN_S
        while not await self._fence(dead, patience):
            await asyncio.sleep(_LOOKS_AGAIN_AFTER_S)
            broker = self._suspected(dead)
            if broker is None or broker.fenced:
                self._dead.pop(dead, None)
            if dead not in self._dead:
                return
            patience = _DIAL_WITHIN_S

    async def _is_gone(self, broker: BrokerImage) -> bool:
        if broker.id == self._own_id:
            return not self._is_own(broker)
        return await self._dial_all(broker) is Dialled.REFUSED and self._has_answered(broker)

    def _is_own(self, broker: BrokerImage) -> bool:
        """The broker in this process, and not a former life of it."""
        return broker.id == self._own_id and broker.epoch == self._own_epoch()

    def _suspected(self, suspect: Incarnation) -> BrokerImage | None:
        """The broker, as long as nothing was heard of it. (One that is fenced may still have a session to end.)"""
        if suspect.broker_id in self._brought_by or not self._controller.is_active:
            return None
        return self._registered(suspect)

    def _is_dead(self, incarnation: Incarnation) -> None:
        self._dead.setdefault(incarnation, self._env.loop.time())

    async def _fence(self, wanted: Incarnation, patience_s: float) -> bool:
        """Fences all that are dead, or at least the one that is wanted; False if that is not safe yet."""
        alive, known = frozenset[int](), 0
        while known != len(self._dead):  # others may turn out to be dead as well: who lives has to outlive them too
            known = len(self._dead)
            alive = await self._alive(patience_s)
        self._dead = {each: since for each, since in self._dead.items() if self._suspected(each) is not None}
        if wanted not in self._dead:
            return self._registered(wanted) is None or self._suspected(wanted) is not None
        together = tuple(self._dead)
        for incarnations in (together, (wanted,)) if len(together) > 1 else (together,):
            try:
                doubted = await self._controller.submit(FenceDeadBrokers(incarnations, alive))
            except KafkaError as error:
                _log.info("broker %d was not fenced: %s", wanted.broker_id, error)
                return False
            if doubted is None:
                for each in incarnations:
                    self._tell_of(each)
                return True
            _log.info(
                "broker %d is gone, but broker %d, to which that leaves partitions, is not known to live: it is not "
                "fenced yet",
                wanted.broker_id,
                doubted,
            )
        return False

    def _tell_of(self, incarnation: Incarnation) -> None:
        broker = self._registered(incarnation)
        if self._dead.pop(incarnation, None) is not None and broker is not None:
            where = ", ".join(f"{endpoint.host}:{endpoint.port}" for endpoint in broker.endpoints)
            _log.warning("broker %d is gone (it is not heard, and nobody listens at %s): fenced", broker.id, where)
            self.found += 1
            self._found_dead_lately(broker.id).append(self._env.loop.time())

    async def _alive(self, patience_s: float) -> frozenset[int]:
        """Of whom there is a sign of life after the last death that is known of. Who is found dead is noted."""
        last_death = max(self._dead.values(), default=0.0)
        others = [
            broker
            for broker in self._image().brokers.values()
            if not broker.fenced and Incarnation(broker.id, broker.epoch) not in self._dead
        ]
        alive = {broker.id for broker in others if self._is_own(broker)}
        looks = {
            self._env.loop.create_task(self._look_at(broker)): broker.id for broker in others if broker.id not in alive
        }
        if looks:
            _, slow = await asyncio.wait(looks, timeout=patience_s)
            for look in slow:
                look.cancel()
            alive |= {broker_id for look, broker_id in looks.items() if look not in slow and look.result()}
        return frozenset(alive | {broker_id for broker_id, at in self._heard_at.items() if at > last_death})

    async def _look_at(self, broker: BrokerImage) -> bool:
        """Whether it answers."""
        incarnation = Incarnation(broker.id, broker.epoch)
        if broker.id == self._own_id:  # a former life
            self._is_dead(incarnation)
            return False
        outcome = await self._dial_all(broker)
        is_refused = outcome is Dialled.REFUSED and self._has_answered(broker)
        if is_refused and self._suspected(incarnation) is not None and not self._is_flapping(broker.id):
            self._is_dead(incarnation)
        return outcome is Dialled.ANSWERED

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
        return len(self._found_dead_lately(broker_id)) >= _FAST

    def _found_dead_lately(self, broker_id: int) -> deque[float]:
        times = self._found_dead.setdefault(broker_id, deque())
        while times and times[0] < self._env.loop.time() - _WITHIN_S:
            times.popleft()
        return times

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
