"""Files packed into tasks of about the same size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar


class Sized(Protocol):
    @property
    def size(self) -> int: ...


F = TypeVar("F", bound=Sized)


def packed(files: Iterable[F], most_bytes: int) -> list[list[F]]:
    """In their order; one without files if there are none, which Spark wants."""
    found: list[list[F]] = [[]]
    size = 0
    for file in files:
        if found[-1] and size + file.size > most_bytes:
            found.append([])
            size = 0
        found[-1].append(file)
        size += file.size
    return found
