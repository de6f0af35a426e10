"""A stop that does not come to its end: it says where it is, and can be cut short."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from ottla.broker import run
from ottla.broker.node import Node
from ottla.cli import format_dirs
from ottla.model.config import broker_config, standalone
from ottla.model.errors import OttlaError


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def _hang() -> None:
    await asyncio.sleep(3600)


def test_a_stop_that_hangs_says_where_and_a_second_interrupt_ends_it(
    tmp_path: Path, handlers: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = Node.stop
    ended: list[bool] = []
    proceed = asyncio.Event()

    async def hanging(node: Node) -> None:
        hang = asyncio.ensure_future(_hang())
        waiting = asyncio.ensure_future(proceed.wait())
        await asyncio.wait((hang, waiting), return_when=asyncio.FIRST_COMPLETED)
        hang.cancel()
        await stop(node)

    def end() -> None:
        ended.append(True)
        proceed.set()

    monkeypatch.setattr(Node, "stop", hanging)
    monkeypatch.setattr(run, "_end_at_once", end)
    monkeypatch.setattr(run, "_STOP_IS_LONG_S", 0.1)
    monkeypatch.setattr(run, "_NOT_THE_SAME_PRESS_S", 0.5)

    async def told() -> None:
        loop = asyncio.get_running_loop()

        def started(_: str) -> None:
            for after in (0, 0.1, 1.5):  # the second is the first once more
                loop.call_later(after, os.kill, os.getpid(), signal.SIGINT)

        config = broker_config(standalone(str(tmp_path), 0))
        format_dirs.format_if_new(config)
        await run._serve(config, started)

    with caplog.at_level(logging.WARNING, "ottla.broker"):
        asyncio.run(told())
    assert ended == [True]
    assert any("still stopping, in " in line and "hanging" in line for line in caplog.messages)
    assert any("told twice to stop" in line for line in caplog.messages)


def test_a_node_whose_disk_fails_while_it_stops_ends_with_that_error() -> None:
    class Stopping:
        async def stop(self) -> None:
            await asyncio.sleep(0)

        def raise_failure(self) -> None:
            raise OttlaError("the disk is full")

    with pytest.raises(OttlaError, match="the disk is full"):
        asyncio.run(run._stop(cast(Node, Stopping())))
