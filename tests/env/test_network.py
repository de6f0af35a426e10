"""The listener: what it does when the system does not let it accept."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket

import pytest
from tests.waiting import PATIENCE_S

from ottla.env import network
from ottla.env.network import TcpNetwork


class Full:
    """A listening socket of a process that has run out of descriptors, for a while."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.refusals = 2

    def accept(self) -> tuple[socket.socket, object]:
        if self.refusals:
            self.refusals -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._real.accept()

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def test_a_process_without_descriptors_waits_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(network, "_AFTER_ERROR_S", 0.05)

    async def story() -> None:
        made = asyncio.Event()

        class Noting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.set()

        listener = await TcpNetwork().listen(Noting, "127.0.0.1", 0)
        listener._sockets = [Full(each) for each in listener._sockets]  # type: ignore[misc]
        await listener.serve()
        with socket.create_connection(("127.0.0.1", listener.port)):
            await asyncio.wait_for(made.wait(), PATIENCE_S)
        listener.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "Too many open files" in told[0] and "ulimit -n" in told[0]


def test_every_interface_is_one_port(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        listener = await TcpNetwork().listen(asyncio.Protocol, "", 0)
        assert {each.getsockname()[1] for each in listener._sockets} == {listener.port}
        await listener.serve()
        socket.create_connection(("127.0.0.1", listener.port)).close()
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", listener.port))

    asyncio.run(story())


def test_a_port_that_is_taken_is_refused() -> None:
    async def story() -> None:
        first = await TcpNetwork().listen(asyncio.Protocol, "127.0.0.1", 0)
        await first.serve()
        with pytest.raises(OSError, match="in use"):
            await TcpNetwork().listen(asyncio.Protocol, "127.0.0.1", first.port)
        first.close()

    asyncio.run(story())


def test_it_does_not_accept_before_it_serves(caplog: pytest.LogCaptureFixture) -> None:
    """Room on another listener of the node wakes this one too."""

    async def story() -> None:
        listener = await TcpNetwork().listen(asyncio.Protocol, "127.0.0.1", 0)
        listener.resume()
        await asyncio.sleep(0.05)
        listener.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    assert not caplog.records


def test_one_that_has_gone_again_is_no_fault_of_who_connects() -> None:
    """A socket has no peer any more once that one has reset it."""

    class Transport(asyncio.Transport):
        def get_extra_info(self, name: str, default: object = None) -> object:
            return socket.socket() if name == "socket" else None

    async def story() -> None:
        transport = Transport()

        async def connected(*_: object) -> tuple[asyncio.Transport, asyncio.Protocol]:
            return transport, asyncio.Protocol()

        asyncio.get_running_loop().create_connection = connected  # type: ignore[method-assign, assignment]
        found, _ = await TcpNetwork().connect(asyncio.Protocol, "127.0.0.1", 1)
        assert found is transport

    asyncio.run(story())
