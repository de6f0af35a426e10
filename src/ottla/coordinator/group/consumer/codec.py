"""The flexible encoding, in what the records of consumer groups use of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from struct import error as StructError
from typing import Final, TypeVar
from uuid import UUID

from ottla.model.errors import OttlaError
from ottla.wire.varint import read_length, read_uvarint, uvarint

T = TypeVar("T")
D = TypeVar("D")
SHORT: Final = Struct(">h")
INT: Final = Struct(">i")
LONG: Final = Struct(">q")
NO_TAGS: Final = b"\x00"
_NULL: Final = b"\x00"


def key_of(kind: int, *names: str) -> bytes:
    parts = [SHORT.pack(kind)]
    for name in names:
        data = name.encode()
        parts += (SHORT.pack(len(data)), data)
    return b"".join(parts)


def read_names(key: bytes) -> list[str]:
    """The texts that a key consists of, behind its type."""
    names, at = [], SHORT.size
    try:
        while at < len(key):
            (size,) = SHORT.unpack_from(key, at)
            at += SHORT.size
            names.append(key[at : at + size].decode())
            at += size
    except (StructError, UnicodeDecodeError) as wrong:
        raise OttlaError(f"a record of a consumer group has the unreadable key {key.hex()}: {wrong}") from wrong
    return names


def text(value: str | None) -> bytes:
    if value is None:
        return _NULL
    data = value.encode()
    return uvarint(len(data) + 1) + data


def blob(value: bytes) -> bytes:
    return uvarint(len(value) + 1) + value


def array(items: Iterable[bytes], count: int) -> bytes:
    return uvarint(count + 1) + b"".join(items)


def ints(values: Iterable[int], count: int) -> bytes:
    return uvarint(count + 1) + Struct(f">{count}i").pack(*values)


def tag(number: int, data: bytes) -> bytes:
    """The one tagged field of a structure."""
    return b"\x01" + uvarint(number) + uvarint(len(data)) + data


class Reader:
    """Over one value; the version stands at its beginning."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = SHORT.size
        (version,) = SHORT.unpack_from(data)
        if version != 0:
            raise OttlaError(f"a record of a consumer group is of version {version}, known is 0")

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def int32(self) -> int:
        self._at += INT.size
        return int(INT.unpack_from(self._data, self._at - INT.size)[0])

    def int64(self) -> int:
        self._at += LONG.size
        return int(LONG.unpack_from(self._data, self._at - LONG.size)[0])

    def uuid(self) -> UUID:
        return UUID(bytes=self._take(16))

    def varint(self) -> int:
        value, self._at = read_uvarint(self._data, self._at)
        return value

    def size(self) -> int:
        """Of a text or an array; -1 is null."""
        size, self._at = read_length(self._data, self._at)
        return size

    def nullable_text(self) -> str | None:
        size = self.size()
        return None if size < 0 else self._take(size).decode()

    def text(self) -> str:
        return self.nullable_text() or ""

    def blob(self) -> bytes:
        return self._take(max(self.size(), 0))

    def array(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(self.size())]

    def ints(self) -> tuple[int, ...]:
        count = self.size()
        if count <= 0:
            return ()
        form = Struct(f">{count}i")
        self._at += form.size
        return form.unpack_from(self._data, self._at - form.size)

    def tagged(self, known: Callable[[], T], otherwise: D) -> T | D:
        """What the tagged field with number 0 says; all others are passed over."""
        found: T | D = otherwise
        for _ in range(self.varint()):
            number, size = self.varint(), self.varint()
            end = self._at + size
            if number == 0:
                found = known()
            self._at = end
        return found

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self._take(self.varint())

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise IndexError(f"{size} bytes at {self._at} are beyond the end")
        self._at += size
        return taken


def reading(what: Callable[[Reader], T], value: bytes) -> T:
    try:
        return what(Reader(value))
    except (StructError, IndexError, ValueError) as wrong:
        raise OttlaError(f"a record of a consumer group has the unreadable value {value.hex()}: {wrong}") from wrong
