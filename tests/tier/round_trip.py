"""What every object store must do for the tier, whoever it is."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from ottla.env.object_store import ObjectMissing, ObjectStore, StoredObject

MIB = 1024 * 1024


async def put_read_and_delete(store: ObjectStore, look: Callable[[bytes], None] = lambda whole: None) -> None:
    """A small object and one of many parts, `a/large`, of which `look` is told what is in it while it is there."""
    pieces = [os.urandom(MIB) for _ in range(20)] + [b"the end"]
    whole = b"".join(pieces)
    await store.put("a/large", pieces)
    await store.put("a/small", [b"x"])
    look(whole)
    assert await store.list("a") == [StoredObject("a/large", len(whole)), StoredObject("a/small", 1)]
    for start, end in ((0, 1), (MIB - 1, MIB + 1), (7 * MIB, 12 * MIB), (len(whole) - 3, len(whole) + 50)):
        assert bytes(await store.get("a/large", start, end)) == whole[start:end]
    await store.delete(["a/large", "a/never"])
    with pytest.raises(ObjectMissing, match="a/large"):
        await store.get("a/large", 0, 1)
