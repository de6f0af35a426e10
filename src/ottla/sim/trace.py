"""What happened in a simulated world, in order. Two runs of one seed have one trace."""

from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple


class TraceEvent(NamedTuple):
    time: float
    host: str
    event: str
    details: str

    def __str__(self) -> str:
        return f"{self.time:.9f} {self.host or '-'} {self.event}: {self.details}"


_made: Final = tuple.__new__  # there are a hundred thousand of them in a minute


class Trace:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.events: list[TraceEvent] = []

    def note(self, host: str, event: str, details: str = "") -> None:
        self.events.append(_made(TraceEvent, (self._now(), host, event, details)))

    def hash(self) -> str:
        return sha256(str(self).encode()).hexdigest()

    def __str__(self) -> str:
        return "".join(f"{event}\n" for event in self.events)


def first_difference(one: Trace, other: Trace) -> str | None:
    """Where two runs parted, for the message of a failed test; None if they are equal."""
    for number, (left, right) in enumerate(zip(one.events, other.events, strict=False)):
        if left != right:
            return f"event {number}:\n  {left}\n  {right}"
    if len(one.events) != len(other.events):
        return f"one run ends after {len(one.events)} events, the other after {len(other.events)}"
    return None
