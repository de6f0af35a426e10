"""TCP through the running event loop."""

import asyncio
import socket
from collections.abc import Callable


class TcpListener:
    def __init__(self, server: asyncio.Server, host: str, port: int) -> None:
        self._server = server
        self.host = host
        self.port = port

    async def serve(self) -> None:
        await self._server.start_serving()

    def close(self) -> None:
        self._server.close()


class TcpNetwork:
    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> TcpListener:
        server = await asyncio.get_running_loop().create_server(
            factory,
            host or None,
            port,
            backlog=1024,
            reuse_address=True,
            start_serving=False,
        )
        return TcpListener(server, host, server.sockets[0].getsockname()[1])

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        transport, protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
        if (sock := transport.get_extra_info("socket")) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport, protocol
