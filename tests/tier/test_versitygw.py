"""The tier in an S3 server with real files, where there is one: objects in parts, damaged files, a server that is gone.

The same story runs over moto in test_tiered_topics.py, on every machine. Here the other side is not Python, checks what
it is sent, and its files can be harmed as a disk would do it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tier.round_trip import put_read_and_delete
from tests.tier.test_bad_stores import fetch
from tests.tier.tiered import consume, create, partition, produce, tiered_node, until_local_from
from tests.tier.versitygw import PROGRAM, WHY_NOT, gateway
from tests.waiting import NEVER_MS, until

from ottla.env.object_store import StoreError
from ottla.env.obstore_store import open_store
from ottla.model.errors import ErrorCode

pytestmark = pytest.mark.skipif(PROGRAM is None, reason=WHY_NOT)
MIB = 1024 * 1024


def test_objects_of_many_parts_are_put_and_read_in_ranges(tmp_path: Path) -> None:
    there = gateway(tmp_path)

    def look(whole: bytes) -> None:
        assert there.object("a/large").read_bytes() == whole

    async def scenario() -> None:
        store = open_store(there.url, there.options)
        try:
            await put_read_and_delete(store, look)
        finally:
            await store.close()

    with there.running():
        asyncio.run(scenario())


def test_a_wrong_secret_is_a_store_that_refuses(tmp_path: Path) -> None:
    there = gateway(tmp_path)

    async def scenario() -> None:
        store = open_store(there.url, {**there.options, "aws_secret_access_key": "another"})
        try:
            with pytest.raises(StoreError, match="a/small"):
                await store.put("a/small", [b"x"])
        finally:
            await store.close()

    with there.running():
        asyncio.run(scenario())
    assert not there.object("a/small").exists()


def test_old_records_are_read_from_it_also_after_a_restart(tmp_path: Path) -> None:
    there = gateway(tmp_path)
    with there.running():
        with tiered_node(tmp_path, there.url, **there.settings) as running:
            create(running.address)
            end = produce(running.address, 0, 40)
            until_local_from(running, end)
            assert consume(running.address, 0, end) == list(range(end))
        with tiered_node(tmp_path, there.url, **there.settings) as running:
            end = produce(running.address, end, 4)
            assert consume(running.address, 7, end) == list(range(7, end))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 10)


@pytest.mark.parametrize(
    ("harm", "code"),
    [
        (flip, ErrorCode.corrupt_message),
        (cut, ErrorCode.corrupt_message),
        (Path.unlink, ErrorCode.kafka_storage_error),
    ],
)
@pytest.mark.parametrize("kind", ["log", "manifest"])
def test_a_harmed_file_is_named(
    tmp_path: Path, kind: str, harm: Callable[[Path], None], code: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    there = gateway(tmp_path)
    with there.running(), tiered_node(tmp_path, there.url, **there.settings) as running:
        create(running.address)
        end = produce(running.address, 0, 8)
        until_local_from(running, end)
        first, *others = sorted(there.folder.rglob(f"*.{kind}"))
        assert others
        harm(first)
        assert fetch(running, 0).error_code is code
        assert first.name in caplog.text
        assert fetch(running, end - 1).error_code is ErrorCode.none


def test_while_it_is_away_the_log_goes_on_and_copies_catch_up(tmp_path: Path) -> None:
    there = gateway(tmp_path)
    quick = {"rsm.config.client.connect.timeout": "1 second", "rsm.config.client.timeout": "2 seconds"}
    # A reader waits until the store was tried often enough: a slow machine takes more than half a second for that.
    patient = {**there.settings, **quick, "remote_fetch_max_wait_ms": NEVER_MS}
    with tiered_node(tmp_path, there.url, **patient) as running:
        with there.running():
            create(running.address)
            middle = produce(running.address, 0, 8)
            until_local_from(running, middle)
        end = produce(running.address, middle, 8)
        assert fetch(running, 0).error_code is ErrorCode.kafka_storage_error
        assert fetch(running, end - 1).error_code is ErrorCode.none
        log = partition(running).log
        assert log.local_start_offset == middle
        with there.running():
            until_local_from(running, end)
            until(lambda: fetch(running, 0).error_code is ErrorCode.none)
            assert consume(running.address, 0, end) == list(range(end))
