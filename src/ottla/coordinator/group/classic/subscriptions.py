"""The topics in what consumers say when they join. All versions begin with topics and user data; Kafka reads these."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import Final

CONSUMER: Final = "consumer"
_HEAD: Final = Struct(">hi")
_SIZE: Final = Struct(">h")
_USER_DATA: Final = Struct(">i")


def topics_of(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics of all members; None if one does not follow the format, as nothing can be said then."""
    topics: set[str] = set()
    for data in set(subscriptions):
        names = _topics(data)
        if names is None:
            return None
        topics |= names
    return frozenset(topics)


def _topics(data: bytes) -> set[str] | None:
    try:
        _, count = _HEAD.unpack_from(data)
        at = _HEAD.size
        names: set[str] = set()
        for _ in range(count):
            (size,) = _SIZE.unpack_from(data, at)
            at += _SIZE.size
            name = data[at : at + size]
            if size < 0 or len(name) < size:
                return None
            names.add(name.decode())
            at += size
        (size,) = _USER_DATA.unpack_from(data, at)
    except (StructError, UnicodeDecodeError):
        return None
    return names if count >= 0 and size <= len(data) - at - _USER_DATA.size else None
