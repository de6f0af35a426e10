"""What `ottla tier verify` compares, while brokers copy and delete."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.tier.given import OF, segment, update
from tests.tier.test_upload import files

from ottla.env.obstore_store import open_store
from ottla.tier.layout import Kind, object_key
from ottla.tier.remote_log import RemoteLog
from ottla.tier.remote_segment import SegmentState
from ottla.tier.told import Logs
from ottla.tier.upload import remove, upload
from ottla.tier.verifying import Problem, verify

FIRST, SECOND = segment(1, 0, 99), segment(2, 100, 199)


def logs_of(log: RemoteLog) -> Logs:
    return {(OF.topic_id, OF.partition): log}


def told(first: SegmentState | None, second: SegmentState | None) -> Logs:
    """The last state of each, as far as it is known."""
    log = RemoteLog()
    for each, last in ((FIRST, first), (SECOND, second)):
        if last is None:
            continue
        log.begin(each)
        for state in SegmentState:
            if SegmentState.COPY_STARTED < state <= last:
                log.update(update(each, state))
    return logs_of(log)


BEGUN, THERE, GOING, GONE = SegmentState


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("before", [None, BEGUN])
@pytest.mark.parametrize("after", [BEGUN, THERE])
def test_what_is_copied_meanwhile_is_neither_missing_nor_unknown(
    tmp_path: Path, before: SegmentState | None, after: SegmentState, deep: bool
) -> None:
    async def scenario() -> None:
        store = open_store("memory:///", {})
        await upload(store, FIRST, files(tmp_path))
        if before is not None:
            await store.put(object_key(SECOND, Kind.LOG), [b"some"])

        async def afterwards() -> Logs:
            await upload(store, SECOND, files(tmp_path))
            return told(THERE, after)

        found = await verify(store, told(THERE, before), await store.list(""), afterwards, deep=deep)
        assert (found.segments, found.findings) == (1, [])

    asyncio.run(scenario())


@pytest.mark.parametrize("state", [GOING, GONE])
@pytest.mark.parametrize("when", ["before it is listed", "while it is read"])
def test_what_is_deleted_meanwhile_is_not_missing(tmp_path: Path, state: SegmentState, when: str) -> None:
    async def scenario() -> None:
        store = open_store("memory:///", {})
        for each in (FIRST, SECOND):
            await upload(store, each, files(tmp_path))
        listed = await store.list("")
        await remove(store, FIRST)
        if when == "before it is listed":
            listed = await store.list("")

        async def afterwards() -> Logs:
            return told(state, THERE)

        found = await verify(store, told(THERE, THERE), listed, afterwards, deep=True)
        assert found.findings == []

    asyncio.run(scenario())


def test_what_should_be_there_and_is_not_is_named_and_so_is_what_nobody_knows(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, unknown = open_store("memory:///", {}), segment(3, 200, 299)
        for each in (FIRST, SECOND, unknown):
            await upload(store, each, files(tmp_path))
        await store.delete([object_key(SECOND, Kind.INDEX)])

        async def afterwards() -> Logs:
            return told(THERE, THERE)

        found = await verify(store, told(THERE, THERE), await store.list(""), afterwards, deep=True)
        assert [each.key for each in found.of(Problem.MISSING)] == [object_key(SECOND, Kind.INDEX)]
        kinds = [kind for kind in Kind if kind is not Kind.TXN_INDEX]
        assert {each.key for each in found.of(Problem.UNKNOWN)} == {object_key(unknown, kind) for kind in kinds}

    asyncio.run(scenario())
