"""The tier in Azure, as far as its emulator is here: the rest is obstore's.

What is tried is that a store is found by its address and options, that objects of many parts are put and read in
ranges, that what is missing and who is refused is told, and that a topic lives there.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.tier.azurite import PROGRAM, WHY_NOT, Azurite, azurite
from tests.tier.round_trip import put_read_and_delete
from tests.tier.test_tiered_topics import configure
from tests.tier.tiered import consume, create, produce, tiered_node, until_local_from
from tests.waiting import until

from ottla.env.object_store import StoreError
from ottla.env.obstore_store import open_store

MIB = 1024 * 1024
pytestmark = pytest.mark.skipif(PROGRAM is None, reason=WHY_NOT)


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[Azurite]:
    with azurite(tmp_path) as there:
        yield there


def test_objects_are_put_and_read_in_ranges(azure: Azurite) -> None:
    """Those of more than 8 MiB in parts."""

    async def scenario() -> None:
        store = open_store(azure.url, azure.options)
        try:
            await put_read_and_delete(store)
        finally:
            await store.close()

    asyncio.run(scenario())


def test_a_wrong_key_is_a_store_that_refuses(azure: Azurite) -> None:
    wrong = base64.b64encode(b"another").decode()

    async def scenario() -> None:
        store = open_store(azure.url, {**azure.options, "azure_storage_account_key": wrong})
        try:
            with pytest.raises(StoreError, match="a/small"):
                await store.put("a/small", [b"x"])
        finally:
            await store.close()

    asyncio.run(scenario())


def test_a_topic_lives_there_until_it_is_given_up(azure: Azurite, tmp_path: Path) -> None:
    async def listed() -> int:
        store = open_store(azure.url, azure.options)
        try:
            return len(await store.list(""))
        finally:
            await store.close()

    with tiered_node(tmp_path, azure.url, **azure.settings) as running:
        create(running.address)
        end = produce(running.address, 0, 20)
        until_local_from(running, end)
        assert consume(running.address, 0, end) == list(range(end))
    assert asyncio.run(listed()) > 20
    with tiered_node(tmp_path, azure.url, **azure.settings) as running:
        end = produce(running.address, end, 4)
        assert consume(running.address, 7, end) == list(range(7, end))
        configure(running.address, remote_storage_enable="false", remote_log_delete_on_disable="true")
        until(lambda: asyncio.run(listed()) == 0)
