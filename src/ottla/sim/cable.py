"""One direction of a simulated TCP connection: in order, with a window, repeating what is not heard.

Cables belong to the world, not to a host: what was sent arrives although its sender has died.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextvars import Context
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.sim.weather import Weather

if TYPE_CHECKING:
    from ottla.sim.transport import SimTransport


class Ending(Enum):
    FINISHED = "closed by the other side"
    RESET = "reset by the other side"


class Acknowledged(NamedTuple):
    size: int


class End(Enum):
    """What has become of one end, as its kernel sees it."""

    OPEN = 1
    CLOSED = 2
    VANISHED = 3
    """The machine lost its power: nobody answers, until it is up again and has never heard of the connection."""


class Field(Protocol):
    """What a cable asks of the network that it is part of."""

    loop: asyncio.AbstractEventLoop
    random: Random
    weather: Weather
    context: Context

    def is_reachable(self, source: str, target: str) -> bool: ...
    def is_up(self, host: str) -> bool: ...
    def travel_s(self, source: str, target: str) -> float: ...
    def bytes_until_cut(self, source: str, target: str, size: int) -> int | None: ...
    def hold(self, cable: Cable) -> None: ...
    @property
    def observe(self) -> Callable[[str, str, str], None]: ...


class Cable:
    """One direction of a connection: in order, with a window."""

    __slots__ = ("_arrive_at", "_giving_up", "_held", "_under_way", "field", "finishing", "source", "target", "unsent")

    def __init__(self, field: Field, source: SimTransport, target: SimTransport) -> None:
        self.field = field
        self.source = source
        self.target = target
        self.unsent = bytearray()
        self.finishing = False
        self._under_way = 0  # bytes of the window in use
        self._arrive_at = 0.0
        self._held: list[bytes | Ending | Acknowledged] = []
        self._giving_up: asyncio.TimerHandle | None = None

    def pump(self) -> None:
        """Sends what fits into the window."""
        weather, random = self.field.weather, self.field.random
        while self.unsent and self._under_way < weather.window:
            size = min(len(self.unsent), weather.window - self._under_way)
            if random.random() < weather.pieces:
                size = random.randint(1, size)
            data = bytes(self.unsent[:size])
            del self.unsent[:size]
            self._under_way += size
            self.launch(data)
        if self.finishing and not self.unsent:
            self.finishing = False
            self.launch(Ending.FINISHED)

    def launch(self, segment: bytes | Ending | Acknowledged) -> None:
        travels = self.field.travel_s(self.source.host, self.target.host)
        self._arrive_at = max(self._arrive_at, self.field.loop.time() + travels)
        self.field.loop.call_at(self._arrive_at, self._arrive, segment, context=self.field.context)

    def acknowledge(self, size: int) -> None:
        """Tells the other end that its bytes were read. One that waits for nothing may as well know it at once."""
        sender = self.target
        is_heard = self.field.is_reachable(self.source.host, sender.host)
        if is_heard and sender.end is End.OPEN and not sender.out.unsent and not sender.is_closing():
            sender.out._under_way -= size
        else:
            self.launch(Acknowledged(size))

    def _arrive(self, segment: bytes | Ending | Acknowledged) -> None:
        if self._held or not self._is_heard():
            self._held.append(segment)
            self.field.hold(self)
            if self._giving_up is None:
                self._giving_up = self.field.loop.call_later(
                    self.field.weather.patience_s, self._give_up, context=self.field.context
                )
        else:
            self._receive(segment)

    def _is_heard(self) -> bool:
        source, target = self.source.host, self.target.host
        return self.field.is_reachable(source, target) and self.field.is_up(target)

    def release(self) -> bool:
        """Delivers what was held back, if the way is free now."""
        if not self._is_heard():
            return False
        held, self._held = self._held, []
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        for segment in held:
            self._receive(segment)
        return True

    def _give_up(self) -> None:
        self._giving_up = None
        if any(not isinstance(segment, Acknowledged) for segment in self._held):
            self._held.clear()
            self.source.lose(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _receive(self, segment: bytes | Ending | Acknowledged) -> None:
        if self.target.end is not End.OPEN:
            if isinstance(segment, bytes):
                self.target.out.launch(Ending.RESET)  # a kernel's answer to data for a connection that is no more
        elif isinstance(segment, Acknowledged):
            opposite = self.target.out
            opposite._under_way -= segment.size
            opposite.pump()
            self.target.drained()
        elif isinstance(segment, Ending):
            self.target.arrived_end(segment)
        else:
            cut = self.field.bytes_until_cut(self.source.host, self.target.host, len(segment))
            self.target.arrived(segment if cut is None else segment[:cut])
            if cut is not None:
                self.field.observe(self.target.host, "net cut", f"{self.target.name} after {cut} bytes")
                self.target.arrived_end(Ending.RESET)
                self.source.arrived_end(Ending.RESET)
