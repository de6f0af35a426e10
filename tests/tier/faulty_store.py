"""A store that can be told to fail, to lie, or to stand still at any step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from ottla.env.object_store import ObjectStore, StoredObject, StoreError
from ottla.env.obstore_store import open_store
from ottla.env.ports import Buffer

Hook = Callable[[str, str], Awaitable[None]]


async def _nothing(operation: str, key: str) -> None:
    pass


class FaultyStore:
    def __init__(self, real: ObjectStore) -> None:
        self.real = real
        self.before: Hook = _nothing
        self.after: Hook = _nothing
        self.change: Callable[[str, bytes], bytes] = lambda key, data: data
        self.asked: list[tuple[str, str]] = []

    async def put(self, key: str, data: Iterable[bytes]) -> None:
        self.asked.append(("put", key))
        await self.before("put", key)
        await self.real.put(key, data)
        await self.after("put", key)

    async def get(self, key: str, start: int, end: int) -> Buffer:
        self.asked.append(("get", key))
        await self.before("get", key)
        return self.change(key, bytes(await self.real.get(key, start, end)))

    async def read(self, key: str) -> bytes:
        self.asked.append(("read", key))
        await self.before("read", key)
        return self.change(key, await self.real.read(key))

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.asked.append(("delete", key))
            await self.before("delete", key)
            await self.real.delete([key])
            await self.after("delete", key)

    async def list(self, prefix: str) -> list[StoredObject]:
        await self.before("list", prefix)
        return await self.real.list(prefix)

    async def close(self) -> None:
        await self.real.close()

    # -- what may go wrong

    def fail(self, *operations: str) -> None:
        async def fail(operation: str, key: str) -> None:
            if operation in operations:
                raise StoreError(f"the store failed on {key}: it is down")

        self.before = fail

    def heal(self) -> None:
        self.before = self.after = _nothing
        self.change = lambda key, data: data

    def stand_still(self, wanted: str, kind: str, *, done: bool) -> asyncio.Event:
        """Before, or after, an operation on an object of a kind: the event says when it is so far."""
        reached = asyncio.Event()

        async def hook(operation: str, key: str) -> None:
            if operation == wanted and key.endswith(f".{kind}"):
                reached.set()
                await asyncio.Event().wait()

        if done:
            self.after = hook
        else:
            self.before = hook
        return reached


@contextmanager
def faulty_stores() -> Iterator[list[FaultyStore]]:
    """All stores that are opened meanwhile are such ones."""
    opened: list[FaultyStore] = []

    def opener(url: str, options: Mapping[str, str]) -> ObjectStore:
        opened.append(FaultyStore(open_store(url, options)))
        return opened[-1]

    with patch("ottla.env.obstore_store.open_store", opener):
        yield opened
