"""What clients of a simulated run have sent and were given, and what was found to be wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.sim.log_files import PartitionId

Identity = tuple[int, int, int]
"""Producer id, epoch and sequence; all -1 for a record without."""
NO_IDENTITY: Identity = (-1, -1, -1)


@dataclass(slots=True)
class Sent:
    """One record that a client has sent, perhaps many times."""

    attempts: int = 0
    first_at: float = 0.0
    identities: set[Identity] = field(default_factory=set)


class Place(NamedTuple):
    """A record's."""

    partition: PartitionId
    offset: int


class Complaint(NamedTuple):
    at: float
    text: str
    about: Place | None

    def __str__(self) -> str:
        return f"at {self.at:.3f} s: {self.text}"


class Journal:
    def __init__(self, now: Callable[[], float], on_violation: Callable[[], None] = lambda: None) -> None:
        self.now = now
        self._on_violation = on_violation
        self.sent: dict[PartitionId, dict[bytes, Sent]] = {}
        self.producer_ids: dict[int, str] = {}
        self.complaints: list[Complaint] = []
        self.at_moments: list[Callable[[], None]] = []
        """Called when a client has just been told of a change that it may count on from now on."""
        self.counts: Counter[str] = Counter()
        """How often what happened: a run in which nothing did proves nothing."""

    @property
    def violations(self) -> list[str]:
        return [str(complaint) for complaint in self.complaints]

    def complain(self, text: str, about: Place | None = None) -> None:
        self.complaints.append(Complaint(self.now(), text, about))
        self._on_violation()

    def moment(self) -> None:
        for listener in self.at_moments:
            listener()

    def sends(self, partition: PartitionId, values: Iterable[bytes], first: Identity = NO_IDENTITY) -> None:
        sent = self.sent.setdefault(partition, {})
        producer_id, epoch, sequence = first
        for number, value in enumerate(values):
            record = sent.setdefault(value, Sent(first_at=self.now()))
            record.attempts += 1
            record.identities.add((producer_id, epoch, sequence + number) if producer_id >= 0 else NO_IDENTITY)

    def gives_producer_id(self, producer_id: int, who: str) -> None:
        if producer_id in self.producer_ids:
            self.complain(f"producer id {producer_id} was given to {self.producer_ids[producer_id]} and to {who}")
        self.producer_ids[producer_id] = who
        self.moment()


def short(value: bytes) -> str:
    """Values begin with a name of their own; what follows is padding."""
    return value.partition(b" ")[0].decode(errors="replace")
