"""The port to an object store: whole objects are put, ranges of them are read, nothing is ever changed in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, runtime_checkable

from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.env.ports import Buffer


T = TypeVar("T")


class StoreError(OttlaError):
    """The store cannot be reached, or does not do what it was asked. Says which object it was about."""


class ObjectMissing(StoreError):
    """There is no object of that name."""


class StoredObject(NamedTuple):
    key: str
    size: int


class ObjectStore(Protocol):
    """Keys are names with `/`, relative to where the store was opened. All of it raises StoreError."""

    async def put(self, key: str, data: Iterable[bytes]) -> None:
        """Durable when it is done; until then there is no object, or the one of before. `data` is drawn in a thread."""

    async def get(self, key: str, start: int, end: int) -> Buffer:
        """Bytes from `start` up to, not including, `end`: fewer where the object ends earlier. May be ObjectMissing."""

    async def read(self, key: str) -> bytes:
        """A small object as a whole."""

    async def delete(self, keys: Sequence[str]) -> None:
        """Those that are not there count as deleted."""

    async def list(self, prefix: str) -> list[StoredObject]:
        """All below a folder, sorted; all there are for an empty name."""

    async def close(self) -> None: ...


@runtime_checkable
class HasThreads(Protocol):
    """A store with threads of its own, in which what came can be looked at: others may be busy with a disk."""

    async def in_thread(self, work: Callable[[], T]) -> T: ...


StoreOpener = Callable[[str, Mapping[str, str]], ObjectStore]
"""From an address, such as s3://bucket/folder, and options of that kind of store. ConfigError if they cannot be."""
