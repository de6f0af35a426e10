"""What somebody wants of a cluster behaves as a register: what is found was acknowledged last, or nobody answered it.

A request that nobody has answered is not over: a broker passes it on for up to a minute, as Kafka's, and may do so when
the controller has long acknowledged a later one that came by another broker.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Wanted:
    """Of one thing, with one writer who asks for one change at a time."""

    kept: object = None
    """What was acknowledged last."""
    _refused: list[object] = field(default_factory=list)
    """Asked for since, and answered with an error, or not yet."""
    _late: list[object] = field(default_factory=list)
    """Nobody answered: it may be carried out at any time."""

    def asks(self, value: object) -> None:
        self._refused.append(value)

    def unanswered(self, value: object) -> None:
        self._late.append(value)

    def acknowledged(self, value: object) -> None:
        self.kept = value
        self._refused.clear()

    def allows(self, found: object) -> bool:
        return found == self.kept or found in self._refused or found in self._late
