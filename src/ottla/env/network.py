"""TCP through the running event loop."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Final

from ottla.env.ports import BY_DEFAULT, Gate, KnowsPeer, SocketOptions
from ottla.env.tcp import tune

_log = logging.getLogger("ottla.net")
_AT_ONCE: Final = 64  # connections accepted before others have the loop
_AFTER_ERROR_S: Final = 1.0


class _Open:
    """A gate that lets everybody in."""

    def wait(self) -> float:
        return 0.0

    def accepted(self, host: str) -> bool:
        return True

    def gone(self, host: str) -> None:
        pass


class TcpListener:
    """asyncio's own servers cannot rest, and tell nobody about a connection before it is made: so this one accepts."""

    def __init__(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        sockets: list[socket.socket],
        host: str,
        gate: Gate,
        backlog: int,
    ) -> None:
        self.host = host
        self.port: int = sockets[0].getsockname()[1]
        self._factory = factory
        self._sockets = sockets
        self._gate = gate
        self._backlog = backlog
        self._loop = asyncio.get_running_loop()
        self._resting: asyncio.TimerHandle | None = None
        self._is_serving = False
        self._is_reading = False
        self._beginning: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        for sock in self._sockets:
            sock.listen(self._backlog)
        self._is_serving = True
        self._read()

    def resume(self) -> None:
        if self._is_serving and not self._is_reading and self._sockets and self._gate.wait() == 0:
            self._read()

    def close(self) -> None:
        self._rest(None)
        for sock in self._sockets:
            sock.close()
        self._sockets = []

    def _read(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        self._is_reading = True
        for sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _rest(self, seconds: float | None) -> None:
        """Until `resume`, or for some seconds."""
        if self._is_reading:
            self._is_reading = False
            for sock in self._sockets:
                self._loop.remove_reader(sock.fileno())
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        if seconds is not None and seconds != float("inf"):
            self._resting = self._loop.call_later(seconds, self._read)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            if (seconds := self._gate.wait()) > 0:
                self._rest(seconds)
                return
            try:
                connection, address = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                advice = ""
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    advice = ". Raise the limit of open files (ulimit -n), or set max.connections"
                _log.error("no connection can be accepted on port %d: %s%s", self.port, error.strerror, advice)
                self._rest(_AFTER_ERROR_S)
                return
            if not self._gate.accepted(address[0]):
                connection.close()
                continue
            connection.setblocking(False)
            task = self._loop.create_task(self._begin(connection, address[0]))
            self._beginning.add(task)
            task.add_done_callback(self._beginning.discard)

    async def _begin(self, connection: socket.socket, host: str) -> None:
        def make() -> asyncio.BaseProtocol:
            protocol = self._factory()
            if isinstance(protocol, KnowsPeer):
                protocol.host = host
            return protocol

        try:
            await self._loop.connect_accepted_socket(make, connection)
        except OSError:  # it ended before it began
            connection.close()
            self._gate.gone(host)


class TcpNetwork:
    async def listen(
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        gate: Gate | None = None,
        options: SocketOptions = BY_DEFAULT,
    ) -> TcpListener:
        sockets: list[socket.socket] = []
        try:
            for family, address in await _addresses(host, port):
                sock = socket.socket(family, socket.SOCK_STREAM)
                sockets.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                _set_size(sock, socket.SO_SNDBUF, options.send_buffer)  # what it accepts has the same
                _set_size(sock, socket.SO_RCVBUF, options.receive_buffer)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.setblocking(False)
                sock.bind((address, port))
                port = sock.getsockname()[1]  # any free one is the same one for all
        except OSError:
            for sock in sockets:
                sock.close()
            raise
        return TcpListener(factory, sockets, host, gate or _Open(), options.backlog)

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        transport, protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
        sock, peer = transport.get_extra_info("socket"), transport.get_extra_info("peername")
        if sock is not None and peer is not None:  # nobody, if the other has gone again already
            tune(sock, peer[0])
        return transport, protocol


async def _addresses(host: str, port: int) -> list[tuple[int, str]]:
    """Family and address, each once. Without a host: every interface, by IPv4 and, where there is that, by IPv6."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    usable = [info for info in found if info[0] != socket.AF_INET6 or socket.has_ipv6]
    return sorted(dict.fromkeys((int(info[0]), str(info[4][0])) for info in usable))


def _set_size(sock: socket.socket, which: int, size: int) -> None:
    if size != -1:
        sock.setsockopt(socket.SOL_SOCKET, which, size)
