"""An object store on virtual time: what all hosts of a world share, and what may be slow, refuse, forget or lie.

A request travels, is carried out at one moment, and its answer is heard at a later one. Whoever dies meanwhile has
asked all the same: what he put arrives. That is how objects come to lie there of which nobody knows.

What the store has lost or damaged for good it still has for judges (`truth`), and for a person who brings it back
(`bring_back`), as from a bucket that keeps versions.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, Literal, NamedTuple, TypeVar, get_args

from ottla.env.object_store import ObjectMissing, ObjectStore, StoredObject, StoreError
from ottla.env.ports import Buffer
from ottla.sim.incarnation import CURRENT, Incarnation

T = TypeVar("T")
StoreOperation = Literal["put", "get", "read", "delete", "list"]
STORE_OPERATIONS: Final[tuple[StoreOperation, ...]] = get_args(StoreOperation)


@dataclass(slots=True)
class StoreMood:
    """How the store is now. Shares are of requests."""

    longest_s: float = 0.03
    refuses: float = 0.0
    """Those that fail: before they are carried out, after it, or seconds before it."""
    refused: tuple[StoreOperation, ...] = STORE_OPERATIONS
    refused_hosts: frozenset[str] = frozenset()
    """Who is refused; everybody if none is named."""
    drops: float = 0.0
    """Of what is put: acknowledged, and never there."""
    shortens: float = 0.0
    """Of what is put: acknowledged, and only a beginning of it there."""
    cuts: float = 0.0
    """Of what is read: fewer bytes than there are."""
    flips: float = 0.0
    """Of what is read: a bit is another."""
    lists_late_s: float = 0.0
    """Lists show what was there so long ago."""


class Putting(NamedTuple):
    """Who put an object, and whether he was still there to hear of it."""

    who: Incarnation | None
    is_heard: bool

    @property
    def may_be_forgotten(self) -> bool:
        return not self.is_heard or (self.who is not None and not self.who.alive)


class SimBucket:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        *,
        context: Context,
        observe: Callable[[str, str, str], None] = lambda host, event, details: None,
    ) -> None:
        self.objects: dict[str, bytes] = {}
        self.mood = StoreMood()
        self.puttings: dict[str, Putting] = {}
        self.counts: Counter[str] = Counter()
        self._hidden: dict[str, bytes] = {}
        self._changes: list[tuple[float, str, int | None]] = []
        self._loop = loop
        self._random = random
        self._context = context
        self._observe = observe

    def client(self, host: str) -> ObjectStore:
        return SimStoreClient(self, host)

    # -- for judges, and for those who break and mend it

    def truth(self, key: str) -> bytes | None:
        """What was put and not deleted, whether the store would give it now or not."""
        return self._hidden.get(key, self.objects.get(key))

    def names(self) -> list[str]:
        return sorted({**self.objects, **self._hidden})

    def lose(self, key: str) -> None:
        self._hidden.setdefault(key, self.objects[key])
        self._set(key, None)
        self.counts["objects lost by the store"] += 1

    def damage(self, key: str, place: int, bit: int) -> None:
        data = self.objects[key]
        self._hidden.setdefault(key, data)
        self._set(key, data[:place] + bytes((data[place] ^ 1 << bit,)) + data[place + 1 :])
        self.counts["objects damaged by the store"] += 1

    def bring_back(self) -> None:
        for key, data in self._hidden.items():
            self._set(key, data)
        self._hidden.clear()

    def heal(self) -> None:
        self.mood = StoreMood()
        self.bring_back()

    def _set(self, key: str, data: bytes | None) -> None:
        self._changes.append((self._loop.time(), key, None if data is None else len(data)))
        if data is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = data

    # -- requests

    async def ask(self, host: str, operation: StoreOperation, key: str, work: Callable[[], T]) -> T:
        random, mood, loop = self._random, self.mood, self._loop
        answer: asyncio.Future[T] = loop.create_future()
        takes = mood.longest_s * random.random() ** 2
        on_the_way, back = takes * random.random(), takes * random.random()
        is_refused = (
            operation in mood.refused
            and (not mood.refused_hosts or host in mood.refused_hosts)
            and random.random() < mood.refuses
        )
        how = random.choice(("before", "after", "late")) if is_refused else "done"
        self.counts[f"store: {operation}{' refused' if is_refused else ''}"] += 1
        self._observe(host, f"store {operation}", f"{key} {how}")

        def carry_out() -> None:
            try:
                settle = partial(answer.set_result, work())
            except StoreError as error:
                settle = partial(answer.set_exception, error)
            if not is_refused:
                self._hear(back, answer, settle)

        if how != "before":
            late_s = random.uniform(0.5, 5.0) if how == "late" else 0.0
            loop.call_later(on_the_way + late_s, carry_out, context=self._context)
        if is_refused:
            error = StoreError(f"the store failed on {key or 'a list'}: it is out of order")
            self._hear(on_the_way + back, answer, partial(answer.set_exception, error))
        return await answer

    def _hear(self, after_s: float, answer: asyncio.Future[T], settle: Callable[[], None]) -> None:
        self._loop.call_later(after_s, _settle, answer, settle, context=self._context)

    def put(self, key: str, data: bytes, who: Incarnation | None, is_heard: Callable[[], bool]) -> None:
        mood, random = self.mood, self._random
        if random.random() < mood.drops:
            self.counts["objects acknowledged and lost"] += 1
            return
        if data and random.random() < mood.shortens:
            self.counts["objects acknowledged and cut"] += 1
            data = data[: random.randrange(len(data))]
        self._hidden.pop(key, None)
        self._set(key, data)
        self.puttings[key] = Putting(who, is_heard())

    def get(self, key: str, start: int, end: int | None) -> bytes:
        data = self.objects.get(key)
        if data is None:
            raise ObjectMissing(f"{key} is not in the store")
        data, mood, random = data[start:end], self.mood, self._random
        if data and random.random() < mood.cuts:
            self.counts["reads that were cut"] += 1
            data = data[: random.randrange(len(data))]
        if data and random.random() < mood.flips:
            self.counts["reads that were damaged"] += 1
            place = random.randrange(len(data))
            data = data[:place] + bytes((data[place] ^ 1 << random.randrange(8),)) + data[place + 1 :]
        return data

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._hidden.pop(key, None)
            if key in self.objects:
                self._set(key, None)

    def list(self, prefix: str) -> list[StoredObject]:
        there: dict[str, int | None] = {}
        for at, key, size in self._changes:
            if at > self._loop.time() - self.mood.lists_late_s:
                break
            there[key] = size
        folder = f"{prefix}/" if prefix else ""
        found = [StoredObject(key, size) for key, size in sorted(there.items()) if size is not None]
        return [each for each in found if each.key.startswith(folder)]


class SimStoreClient:
    """The store as one process of a host has it."""

    def __init__(self, bucket: SimBucket, host: str) -> None:
        self._bucket = bucket
        self._host = host

    async def put(self, key: str, data: Iterable[bytes]) -> None:
        body = b"".join(data)
        who = CURRENT.get()
        is_awaited = True

        def is_heard() -> bool:
            return is_awaited and (who is None or who.alive)

        try:
            await self._bucket.ask(self._host, "put", key, lambda: self._bucket.put(key, body, who, is_heard))
        finally:
            is_awaited = False  # he was told that it had failed, say, and it is carried out late

    async def get(self, key: str, start: int, end: int) -> Buffer:
        return await self._bucket.ask(self._host, "get", key, lambda: self._bucket.get(key, start, end))

    async def read(self, key: str) -> bytes:
        return await self._bucket.ask(self._host, "read", key, lambda: self._bucket.get(key, 0, None))

    async def delete(self, keys: Sequence[str]) -> None:
        for key in keys:  # one after the other, as far as it comes
            await self._bucket.ask(self._host, "delete", key, partial(self._bucket.delete, [key]))

    async def list(self, prefix: str) -> list[StoredObject]:
        return await self._bucket.ask(self._host, "list", prefix, lambda: self._bucket.list(prefix))

    async def close(self) -> None:
        pass


def _settle(answer: asyncio.Future[T], settle: Callable[[], None]) -> None:
    if not answer.done():
        settle()
        answer.exception()  # whoever asked may be dead: nobody complains of what he does not look at
