"""What consumers tell each other through a classic group: subscriptions and assignments (ConsumerProtocol, 0 to 3).

    subscription   version, topics, user data, 1+: owned partitions, 2+: generation, 3+: rack
    assignment     version, partitions by topic, user data

A version that is newer than those known is read as the newest known, as it may only add to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from ottla.model.errors import OttlaError

Places = Mapping[str, tuple[int, ...]]
"""Partitions by the names of their topics."""

_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_NEWEST: Final = 3
_NULL_BYTES: Final = _INT.pack(-1)


class Unreadable(OttlaError):
    """It does not follow the format."""


class Subscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: Places
    rack: str | None = None


class EmbeddedAssignment(NamedTuple):
    places: Places
    user_data: bytes | None = None


def read_subscription(data: bytes) -> Subscription:
    reader = _Reader(data)
    version = reader.version()
    topics = tuple(reader.text() for _ in range(reader.count()))
    reader.blob()
    owned: Places = {}
    rack = None
    if version >= 1:
        owned = reader.places()
    if version >= 2:
        reader.int32()
    if version >= 3:
        rack = reader.nullable_text()
    return Subscription(version, topics, owned, rack)


def read_topics(data: bytes) -> frozenset[str]:
    """Of a subscription in whatever version: all begin with topics and user data, and Kafka looks no further."""
    reader = _Reader(data)
    reader.int16()
    topics = frozenset(reader.text() for _ in range(reader.count()))
    reader.blob()
    return topics


def version_to_answer(subscription: bytes) -> int:
    """The version of a member's words, in which it is told its share; the oldest if there is none to be read."""
    try:
        return _Reader(subscription).version()
    except Unreadable:
        return 0


def read_assignment(data: bytes) -> EmbeddedAssignment:
    """Without a byte: nothing was assigned."""
    if not data:
        return EmbeddedAssignment({})
    reader = _Reader(data)
    reader.version()
    return EmbeddedAssignment(reader.places(), reader.blob())


def write_assignment(version: int, places: Mapping[str, Iterable[int]]) -> bytes:
    parts = [_SHORT.pack(version), _INT.pack(len(places))]
    for topic, partitions in places.items():
        numbers, name = sorted(partitions), topic.encode()
        parts += (_SHORT.pack(len(name)), name, Struct(f">i{len(numbers)}i").pack(len(numbers), *numbers))
    return b"".join((*parts, _NULL_BYTES))


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise Unreadable(f"what consumers tell each other has the version {version}")
        return min(version, _NEWEST)

    def int16(self) -> int:
        return self._number(_SHORT)

    def int32(self) -> int:
        return self._number(_INT)

    def count(self) -> int:
        count = self.int32()
        if count < 0:
            raise Unreadable(f"a list of {count} at byte {self._at}")
        return count

    def text(self) -> str:
        text = self.nullable_text()
        if text is None:
            raise Unreadable(f"a name is missing at byte {self._at}")
        return text

    def nullable_text(self) -> str | None:
        size = self.int16()
        try:
            return None if size < 0 else self._take(size).decode()
        except UnicodeDecodeError as error:
            raise Unreadable(f"a name is not text: {error}") from error

    def blob(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self._take(size)

    def places(self) -> Places:
        places: dict[str, tuple[int, ...]] = {}
        for _ in range(self.count()):
            topic, count = self.text(), self.count()
            places[topic] = Struct(f">{count}i").unpack(self._take(count * _INT.size))
        return places

    def _number(self, form: Struct) -> int:
        try:
            (number,) = form.unpack_from(self._data, self._at)
        except StructError as error:
            raise Unreadable(f"it ends at byte {len(self._data)}, too early") from error
        self._at += form.size
        return int(number)

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise Unreadable(f"it ends at byte {len(self._data)}, too early")
        self._at += size
        return taken
