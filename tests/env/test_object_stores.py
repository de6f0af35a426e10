"""One contract for every kind of store."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.tier.s3 import s3_server
from tests.waiting import PATIENCE_S

from ottla.env.object_store import HasThreads, ObjectMissing, ObjectStore, StoredObject, StoreError
from ottla.env.obstore_store import open_store
from ottla.model.config_error import ConfigError

Scenario = Callable[[ObjectStore], Coroutine[Any, Any, None]]
MIB = 1024 * 1024


@pytest.fixture(params=["folder", "memory", "s3"])
def with_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Scenario], None]]:
    def run(scenario: Scenario, url: str, options: dict[str, str]) -> None:
        async def whole() -> None:
            store = open_store(url, options)
            try:
                await scenario(store)
            finally:
                await store.close()

        asyncio.run(whole())

    if request.param == "s3":
        with s3_server() as s3:
            yield lambda scenario: run(scenario, s3.url, s3.options)
    else:
        url = f"file://{tmp_path}/a%20folder" if request.param == "folder" else "memory:///"
        yield lambda scenario: run(scenario, url, {})


def test_what_was_put_is_read_back_in_ranges(with_store: Callable[[Scenario], None]) -> None:
    data = os.urandom(20 * MIB + 17)  # in parts, where the store has those

    async def scenario(store: ObjectStore) -> None:
        await store.put("t-x/0/a.log", (data[at : at + MIB] for at in range(0, len(data), MIB)))
        assert await store.get("t-x/0/a.log", 0, 5) == data[:5]
        assert await store.get("t-x/0/a.log", 9 * MIB - 1, 9 * MIB + 1) == data[9 * MIB - 1 : 9 * MIB + 1]
        assert await store.get("t-x/0/a.log", len(data) - 3, len(data) + 100) == data[-3:]
        assert await store.read("t-x/0/a.log") == data

    with_store(scenario)


def test_putting_again_replaces(with_store: Callable[[Scenario], None]) -> None:
    async def scenario(store: ObjectStore) -> None:
        for content in (b"one", b"two"):
            await store.put("k", [content])
        assert await store.read("k") == b"two"
        await store.put("empty", [])
        assert await store.read("empty") == b""

    with_store(scenario)


def test_a_missing_object_is_named(with_store: Callable[[Scenario], None]) -> None:
    async def scenario(store: ObjectStore) -> None:
        with pytest.raises(ObjectMissing, match=r"t/0/nothing\.log"):
            await store.get("t/0/nothing.log", 0, 10)
        with pytest.raises(ObjectMissing, match=r"t/0/nothing\.log"):
            await store.read("t/0/nothing.log")
        await store.delete(["t/0/nothing.log"])

    with_store(scenario)


def test_a_listing_is_sorted_and_below_a_folder(with_store: Callable[[Scenario], None]) -> None:
    async def scenario(store: ObjectStore) -> None:
        for name in ("t/1/b", "t/0/b", "t/0/a", "t/01/x"):
            await store.put(name, [name.encode()])
        assert await store.list("t/0") == [StoredObject("t/0/a", 5), StoredObject("t/0/b", 5)]
        assert [each.key for each in await store.list("")] == ["t/0/a", "t/0/b", "t/01/x", "t/1/b"]
        await store.delete(["t/0/a", "t/0/b"])
        assert await store.list("t/0") == []

    with_store(scenario)


def test_data_that_cannot_be_drawn_leaves_no_object(with_store: Callable[[Scenario], None]) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x" * 9 * MIB
        raise OSError("the disk is gone")

    async def scenario(store: ObjectStore) -> None:
        with pytest.raises(StoreError, match="half"):
            await store.put("half", pieces())
        assert await store.list("") == []

    with_store(scenario)


def test_a_store_that_is_not_there_is_an_error_that_names_the_object() -> None:
    async def scenario() -> None:
        options = {
            "aws_endpoint": "http://127.0.0.1:1", "aws_region": "r", "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
        }  # fmt: skip
        store = open_store("s3://bucket", options)
        with pytest.raises(StoreError, match=r"t/0/a\.log"):
            await store.get("t/0/a.log", 0, 1)
        with pytest.raises(StoreError, match="the list of objects"):
            await store.list("")
        await store.close()

    asyncio.run(scenario())


def test_what_came_is_looked_at_while_hundreds_of_requests_wait() -> None:
    """It would pile up in memory behind them."""
    answered = threading.Event()

    def pieces() -> Iterator[bytes]:
        answered.wait(PATIENCE_S)
        yield b"x"

    async def scenario() -> None:
        store = open_store("memory:///", {})
        assert isinstance(store, HasThreads)
        puts = [asyncio.ensure_future(store.put(f"{number}", pieces())) for number in range(200)]
        try:
            assert await asyncio.wait_for(store.in_thread(lambda: 7), PATIENCE_S / 2) == 7
        finally:
            answered.set()
            await asyncio.gather(*puts)
            await store.close()

    asyncio.run(scenario())


def test_a_store_that_does_not_answer_is_closed_all_the_same() -> None:
    answered = threading.Event()

    def pieces() -> Iterator[bytes]:
        answered.wait(PATIENCE_S)
        yield b"x"

    async def scenario() -> None:
        store = open_store("memory:///", {})
        puts = [asyncio.ensure_future(store.put(f"{number}", pieces())) for number in range(200)]
        await asyncio.sleep(0.1)
        for put in puts[:10]:
            put.cancel()
        try:
            async with asyncio.timeout(PATIENCE_S / 2):
                await store.close()
        finally:
            answered.set()
        await asyncio.gather(*puts, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("nonsense", {}),
        ("s3://b", {"no_such_option": "1"}),
        ("what://x", {}),
        ("file://mnt/tier", {}),  # it would be /tier
        ("file:tier", {}),
    ],
)
def test_an_address_that_cannot_be_is_refused(url: str, options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"rsm\.config\.url"):
        open_store(url, options)
