"""What the active controller knows that is not in the log: who lives, and how far he is.

It is made when the controller becomes active and forgotten when it no longer is: a new one starts all sessions afresh.
Decisions read it; heartbeats write to it. It says when it wants to be woken, and what is then to be decided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ottla.metadata.controller.partition_index import PartitionIndex
from ottla.metadata.controller.requests import BalanceLeaders, ElectUncleanLeaders, FenceBroker, Request
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage

NOT_SHUTTING_DOWN: Final = -1
_CHECKS_PER_SESSION: Final = 8  # Kafka's; here only the upper limit of the time between two looks
_LATE_MS: Final = 100.0  # a timer is a little late now and then
_MORE_AFTER_MS: Final = 10.0  # when a round of elections was too small for all there is to do


@dataclass(slots=True)
class BrokerPulse:
    """One registration of a broker, as its heartbeats tell."""

    epoch: int
    registered_at: int  # an offset: once the broker has applied it, it knows of its own registration
    seen_ms: float | None = None  # None: no session
    is_heard: bool = False  # by this controller
    metadata_offset: int = -1
    shutdown_offset: int = NOT_SHUTTING_DOWN
    """Others must have applied this before the broker may go: they then know that it leads nothing any more."""

    @property
    def is_shutting_down(self) -> bool:
        return self.shutdown_offset != NOT_SHUTTING_DOWN


class SoftState:
    def __init__(self, image: MetadataImage, settings: ControllerSettings, now_ms: Callable[[], float]) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._index = PartitionIndex(image)
        now = now_ms()
        self.brokers = {broker.id: BrokerPulse(broker.epoch, image.offset) for broker in image.brokers.values()}
        for broker in image.brokers.values():
            # A broker in this very process needs no session to be believed dead: it registers anew when it starts.
            if not broker.fenced and broker.id != settings.node_id:
                self.brokers[broker.id].seen_ms = now
        self._balance_at: float | None = None
        if settings.balance_every_ms is not None:
            self._balance_at = now + settings.balance_every_ms
        self._unclean_at = now + settings.unclean_every_ms
        self._wakes_at: float | None = None

    def index(self, image: MetadataImage) -> PartitionIndex:
        """Of the image that a decision is made on; that is the one followed to, unless someone asks out of turn."""
        if image is not self._index.image:
            self._index = PartitionIndex(image)
        return self._index

    def follow(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Records were decided on and appended."""
        if delta.base is self._index.image:
            self._index.follow(delta, image)
        else:
            self._index = PartitionIndex(image)
        for broker_id in delta.changed_brokers:
            broker = image.brokers.get(broker_id)
            if broker is None:
                self.brokers.pop(broker_id, None)
                continue
            pulse = self.brokers.get(broker_id)
            if pulse is None or pulse.epoch != broker.epoch:
                # the registration is the last record of its batch
                self.brokers[broker_id] = BrokerPulse(broker.epoch, image.offset)
            elif broker.fenced:
                pulse.shutdown_offset = NOT_SHUTTING_DOWN

    # -- sessions

    def pulse(self, broker_id: int, epoch: int, image: MetadataImage) -> BrokerPulse:
        """Of a registration that is in the image."""
        pulse = self.brokers.get(broker_id)
        if pulse is None or pulse.epoch != epoch:
            pulse = self.brokers[broker_id] = BrokerPulse(epoch, image.offset)
        return pulse

    def saw_now(self, pulse: BrokerPulse) -> None:
        pulse.seen_ms = self._now_ms()
        pulse.is_heard = True

    def has_session(self, broker_id: int, epoch: int) -> bool:
        pulse = self.brokers.get(broker_id)
        return pulse is not None and pulse.epoch == epoch and not self._is_over(pulse, self._now_ms())

    def end_session(self, broker_id: int) -> None:
        """Its process is known to be gone, or said that it goes: the next one may register at once."""
        if broker_id in self.brokers:
            self.brokers[broker_id].seen_ms = None

    def unheard(self, image: MetadataImage) -> frozenset[int]:
        """Brokers that are not fenced, and of which this controller has heard nothing yet: they may be long dead."""
        return frozenset(
            broker.id
            for broker in image.brokers.values()
            if not broker.fenced and not self.pulse(broker.id, broker.epoch, image).is_heard
        )

    def lowest_active_offset(self, image: MetadataImage) -> int | None:
        """Up to where all brokers that are neither fenced nor about to go have applied the metadata; None: no such."""
        return min(
            (
                pulse.metadata_offset
                for broker_id, pulse in self.brokers.items()
                if not pulse.is_shutting_down and broker_id in image.brokers and not image.brokers[broker_id].fenced
            ),
            default=None,
        )

    def _is_over(self, pulse: BrokerPulse, now: float) -> bool:
        return pulse.seen_ms is None or now - pulse.seen_ms > self._settings.session_timeout_ms

    # -- what is to be done without anyone asking

    def wake_in_ms(self) -> float:
        now = self._now_ms()
        timeout = self._settings.session_timeout_ms
        moments = [now + timeout / _CHECKS_PER_SESSION, self._unclean_at]
        # a little after: a session is over when more than its time has passed
        moments += (pulse.seen_ms + timeout + 1 for pulse in self.brokers.values() if pulse.seen_ms is not None)
        if self._balance_at is not None:
            moments.append(self._balance_at)
        wait = max(1.0, min(moments) - now)
        self._wakes_at = now + wait
        return wait

    def due(self) -> list[Request[Any]]:
        """What is to be decided now, in this order. One broker after the other, so that each sees who is left."""
        now = self._now_ms()
        self._allow_for_own_sleep(now)
        requests: list[Request[Any]] = []
        for broker_id, pulse in self.brokers.items():
            if pulse.seen_ms is not None and self._is_over(pulse, now):
                pulse.seen_ms = None
                requests.append(FenceBroker(broker_id, pulse.epoch))
        if self._balance_at is not None and now >= self._balance_at and self._settings.balance_every_ms is not None:
            self._balance_at = now + self._settings.balance_every_ms
            requests.append(BalanceLeaders())
        if now >= self._unclean_at:
            self._unclean_at = now + self._settings.unclean_every_ms
            requests.append(ElectUncleanLeaders())
        return requests

    def _allow_for_own_sleep(self, now: float) -> None:
        """While this process did not run, it could not hear either: heartbeats may be waiting in its sockets."""
        late = 0.0 if self._wakes_at is None else now - self._wakes_at
        self._wakes_at = None
        if late > _LATE_MS:
            for pulse in self.brokers.values():
                if pulse.seen_ms is not None:
                    pulse.seen_ms = min(now, pulse.seen_ms + late)

    def more_to_balance(self) -> None:
        self._balance_at = self._now_ms() + _MORE_AFTER_MS

    def more_unclean(self) -> None:
        self._unclean_at = self._now_ms() + _MORE_AFTER_MS
