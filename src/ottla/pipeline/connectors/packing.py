"""Files packed into tasks of Spark's, of about the same size."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from pyspark.sql.datasource import InputPartition


class Sized(Protocol):
    @property
    def size(self) -> int: ...


F = TypeVar("F", bound=Sized)


class Task(InputPartition, Generic[F]):
    def __init__(self, files: list[F]) -> None:
        super().__init__(None)
        self.files = files


def tasks(files: Iterable[F], most_bytes: int) -> list[Task[F]]:
    """In their order; one without files if there are none, which Spark wants."""
    found: list[Task[F]] = [Task([])]
    size = 0
    for file in files:
        if found[-1].files and size + file.size > most_bytes:
            found.append(Task([]))
            size = 0
        found[-1].files.append(file)
        size += file.size
    return found
