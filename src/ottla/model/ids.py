"""Ids as Kafka prints and stores them: URL-safe base64 without padding."""

from __future__ import annotations

import base64
import re
from typing import Final, Protocol
from uuid import UUID

RESERVED: Final = frozenset(UUID(int=number) for number in range(100))
"""Ids with a meaning of their own; for a directory: unassigned, lost, and room for more."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")


class RandomUuids(Protocol):
    def uuid(self) -> UUID: ...


def uuid_text(value: UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """ValueError if this is not 22 characters of URL-safe base64."""
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is not an id: 22 letters, digits, '-' or '_' are needed")
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def random_uuid(random: RandomUuids) -> UUID:
    """Like Kafka's: never one that a command line would take for an option, nor a reserved one."""
    while True:
        value = random.uuid()
        if not uuid_text(value).startswith("-") and value not in RESERVED:
            return value
