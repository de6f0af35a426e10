"""What the runtime asks of a coordinator, and gives to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from ottla.model.errors import KafkaError

R = TypeVar("R")


class StoredRecord(NamedTuple):
    """A record of the internal topic, as bytes; no value deletes what the key names."""

    key: bytes
    value: bytes | None


class Outcome(NamedTuple, Generic[R]):
    """What an operation decided: records to append, and the reply once they, and all before them, are committed.

    For state that is not in records (members that wait for an answer, timers): `committed` is called when all that is
    so, `undone` with the reason if it fails. Neither may start an operation; what they set an alarm for, may.

    `take_over` does what replaying the records would do, at once, where the operation knows what it has just written.
    """

    reply: R
    records: Sequence[StoredRecord] = ()
    undone: Callable[[KafkaError], None] | None = None
    committed: Callable[[], None] | None = None
    take_over: Callable[[], None] | None = None


class Machine(Protocol):
    """A coordinator's state for one partition. It does no I/O, and changes what records say only in `replay`."""

    def replay(self, record: StoredRecord, producer_id: int, producer_epoch: int) -> None:
        """Takes over a record, from the log when it is loaded, or one that an operation has just returned."""

    def end_transaction(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None: ...
    def started(self) -> None:
        """All records of the log have been replayed; from here on there are operations and timers."""

    def stopped(self) -> None:
        """Another node leads, or this one ends: those who wait for an answer get none from here."""


class Timers(Protocol):
    """Alarms by name; a new one takes the place of one with the same name. What they run is an operation like any."""

    def set(self, name: object, delay_ms: float, operation: Callable[[], Outcome[Any]]) -> None: ...
    def cancel(self, name: object) -> None: ...
