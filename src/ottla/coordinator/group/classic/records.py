"""GroupMetadata records of `__consumer_offsets`: read in all versions (0 to 4), written as Kafka writes them (3).

    key (2)     group
    value       protocol type, generation, protocol, leader, 2+: time of the last change of state, members
    a member    id, 3+: instance id, client id, host, 1+: rebalance timeout, session timeout, subscription, assignment

Version 4 has the same fields with compact lengths and tagged fields. By hand: a group of a thousand members is written
whole with every generation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from ottla.coordinator.machine import StoredRecord

KEY_TYPE: Final = 2
NO_TIME: Final = -1
_VERSION: Final = 3
_FLEXIBLE: Final = 4
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
_TIMEOUTS: Final = Struct(">ii")
_NULL: Final = _SHORT.pack(-1)


class StoredMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class StoredGroup(NamedTuple):
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_ms: int
    members: Sequence[StoredMember] = ()


class UnreadableGroup(ValueError):
    """A value that does not follow the format."""


def group_key(group_id: str) -> bytes:
    return _SHORT.pack(KEY_TYPE) + _string(group_id)


def group_of(key: bytes) -> str:
    """The group that a key of this type names."""
    return key[4:].decode()


def tombstone(group_id: str) -> StoredRecord:
    return StoredRecord(group_key(group_id), None)


def group_record(group_id: str, group: StoredGroup) -> StoredRecord:
    parts = [
        _SHORT.pack(_VERSION),
        _string(group.protocol_type),
        _INT.pack(group.generation),
        _string(group.protocol),
        _string(group.leader),
        _LONG.pack(group.state_since_ms),
        _INT.pack(len(group.members)),
    ]
    for member in group.members:
        parts += (
            _string(member.member_id),
            _string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _TIMEOUTS.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
            _INT.pack(len(member.subscription)),
            member.subscription,
            _INT.pack(len(member.assignment)),
            member.assignment,
        )
    return StoredRecord(group_key(group_id), b"".join(parts))


def read_group(value: bytes) -> StoredGroup:
    try:
        return _Reader(value).group()
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise UnreadableGroup(f"a group's record of {len(value)} bytes cannot be read: {error}") from error


def _string(text: str | None) -> bytes:
    if text is None:
        return _NULL
    data = text.encode()
    return _SHORT.pack(len(data)) + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 2
        (self._version,) = _SHORT.unpack_from(data, 0)
        if not 0 <= self._version <= _FLEXIBLE:
            raise UnreadableGroup(f"a group's record has version {self._version}, known are 0 to {_FLEXIBLE}")
        flexible = self._version == _FLEXIBLE
        self._text_size: Callable[[], int] = self._varint_size if flexible else self._short
        self._size: Callable[[], int] = self._varint_size if flexible else self._int

    def group(self) -> StoredGroup:
        version = self._version
        protocol_type, generation = self._text() or "", self._int()
        protocol, leader = self._text(), self._text()
        since = self._long() if version >= 2 else NO_TIME
        members = [self._member() for _ in range(self._size())]
        self._skip_tags()
        return StoredGroup(protocol_type, generation, protocol, leader, since, members)

    def _member(self) -> StoredMember:
        version = self._version
        member = StoredMember(
            self._text() or "",
            self._text() if version >= 3 else None,
            self._text() or "",
            self._text() or "",
            self._int() if version >= 1 else -1,
            self._int(),
            self._take(self._size()),
            self._take(self._size()),
        )
        self._skip_tags()
        return member

    def _text(self) -> str | None:
        size = self._text_size()
        return None if size < 0 else self._take(size).decode()

    def _take(self, size: int) -> bytes:
        end = self._at + max(size, 0)
        if end > len(self._data):
            raise IndexError(f"{size} bytes at {self._at} are beyond the end")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _short(self) -> int:
        return self._number(_SHORT)

    def _int(self) -> int:
        return self._number(_INT)

    def _long(self) -> int:
        return self._number(_LONG)

    def _number(self, form: Struct) -> int:
        (number,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return int(number)

    def _varint_size(self) -> int:
        """Compact lengths are one more than they say; 0 is null."""
        return self._varint() - 1

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _skip_tags(self) -> None:
        if self._version == _FLEXIBLE:
            for _ in range(self._varint()):
                self._varint()
                self._take(self._varint())
