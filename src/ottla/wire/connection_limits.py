"""How many connections there may be, in all, on a listener and from an address, and how fast new ones may come.

Kafka's rules. Where there is no room on a listener, or connections come too fast, nobody is accepted there for a
while: they wait in the listener's backlog. One more from an address that has its share is closed at once. The listener
between nodes always has room (if it is not the only one): the connection that has been idle longest on another one is
closed for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import inf
from typing import Final, NamedTuple

_log = logging.getLogger("ottla.wire")

NO_LIMIT: Final = (1 << 31) - 1
_BURST_SECONDS: Final = 10  # the rate is that of a window of this length
_LONGEST_WAIT_S: Final = 1.0


class Limits(NamedTuple):
    in_all: int = NO_LIMIT
    of_listeners: Mapping[str, int] = {}  # those that have a limit of their own
    of_an_address: int = NO_LIMIT
    of_addresses: Mapping[str, int] = {}
    rate: int = NO_LIMIT  # in a second
    rates_of_listeners: Mapping[str, int] = {}
    protected: str | None = None  # the listener between nodes


class _Rate:
    """New connections: so many a second in the long run, and after a second's wait one in any case."""

    def __init__(self, rate: int, now: float) -> None:
        self.rate = rate
        self._room = float(max(rate * _BURST_SECONDS, 1))
        self._at = now
        self._due: float | None = None

    def wait(self, now: float) -> float:
        self._room = min(self._room + (now - self._at) * self.rate, max(self.rate * _BURST_SECONDS, 1))
        self._at = now
        if self._room >= 1:
            return 0.0
        if self._due is None:
            needed = (1 - self._room) / self.rate if self.rate else inf
            self._due = now + min(needed, _LONGEST_WAIT_S)
        return max(self._due - now, 0.0)

    def take(self) -> None:
        self._room = max(self._room - 1, 0.0)
        self._due = None


class ConnectionLimits:
    """Counts; does nothing itself. `on_room` and `on_excess` tell those who can."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.total = 0
        self.refused = 0
        self.by_listener: dict[str, int] = {}
        self.on_room: list[Callable[[], None]] = []  # someone may be accepted who could not
        self.on_excess: Callable[[], None] = _nothing  # one of those that are not protected has to go
        self._now = now
        self._limits = Limits()
        self._by_address: dict[str, int] = {}
        self._rate = _Rate(NO_LIMIT, 0.0)
        self._listener_rates: dict[str, _Rate] = {}

    def configure(self, limits: Limits) -> None:
        before, self._limits = self._limits, limits
        now = self._now()
        if limits.rate != before.rate:
            self._rate = _Rate(limits.rate, now)
        if limits.rates_of_listeners != before.rates_of_listeners:
            self._listener_rates = {name: _Rate(rate, now) for name, rate in limits.rates_of_listeners.items()}
        self.shed()
        self._tell_room()

    def add_listener(self, name: str) -> None:
        self.by_listener.setdefault(name, 0)

    def is_protected(self, listener: str) -> bool:
        return listener == self._limits.protected and len(self.by_listener) > 1

    @property
    def excess(self) -> int:
        return self.total - self._limits.in_all

    def wait(self, listener: str) -> float:
        """How long nobody can be accepted on a listener: 0 if one can, infinite if somebody has to go first."""
        if self.by_listener[listener] >= self._limits.of_listeners.get(listener, NO_LIMIT):
            return inf
        if self.total >= self._limits.in_all and not self.is_protected(listener):
            return inf
        if self._limits.rate == NO_LIMIT and not self._listener_rates:
            return 0.0
        now = self._now()
        own = self._listener_rates.get(listener)
        return max(self._rate.wait(now), own.wait(now) if own is not None else 0.0)

    def accepted(self, listener: str, address: str) -> bool:
        """A connection has come; False if it must be closed at once, then it does not count."""
        self._rate.take()
        if (own := self._listener_rates.get(listener)) is not None:
            own.take()
        address = plain(address)
        count = self._by_address.get(address, 0)
        most = self._limits.of_addresses.get(address, self._limits.of_an_address)
        if count >= most:
            self.refused += 1
            _log.info(
                "refusing a connection from %s: it has the %d that it may have (max.connections.per.ip)",
                address, most, extra={"peer": address},
            )  # fmt: skip
            return False
        self._by_address[address] = count + 1
        self.by_listener[listener] += 1
        self.total += 1
        self.shed()
        return True

    def gone(self, listener: str, address: str) -> None:
        if listener not in self.by_listener:  # one without a gate
            return
        address = plain(address)
        left = self._by_address.get(address, 0) - 1
        if left > 0:
            self._by_address[address] = left
        else:
            self._by_address.pop(address, None)
        self.by_listener[listener] -= 1
        self.total -= 1
        self._tell_room()

    def shed(self) -> None:
        if self.excess > 0:
            self.on_excess()

    def _tell_room(self) -> None:
        for told in self.on_room:
            told()


class ListenerGate:
    """The limits as one listener asks for them: a Gate of the network port."""

    def __init__(self, limits: ConnectionLimits, listener: str) -> None:
        self._limits = limits
        self._listener = listener
        limits.add_listener(listener)

    def wait(self) -> float:
        return self._limits.wait(self._listener)

    def accepted(self, host: str) -> bool:
        return self._limits.accepted(self._listener, host)

    def gone(self, host: str) -> None:
        self._limits.gone(self._listener, host)


def plain(address: str) -> str:
    """An IPv4 address is the same when it comes over IPv6."""
    return address.removeprefix("::ffff:")


def _nothing() -> None:
    pass
