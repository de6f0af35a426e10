"""How a TCP connection is set up, on either side of it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Final

_CONGESTION: Final = getattr(socket, "TCP_CONGESTION", None)  # Linux
_UNPACED: Final = b"reno"  # always there, and open to every user


def tune(sock: socket.socket, peer_host: str) -> None:
    """Small messages go at once. Within one machine nothing is congested, so nothing need be paced.

    Where BBR is the default, as on many clouds, its timers take half of what sending over the loopback costs.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if _CONGESTION is not None and is_loopback(peer_host):
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, _CONGESTION, _UNPACED)


class BorrowedSocket(socket.socket):
    """A transport's socket, which the transport alone closes.

    To be detached when the connection is lost: from then on the number may be another file's. A loop that ends before
    it tells of that leaves it to the garbage collector, where an ordinary socket would close what has the number then.
    """

    __slots__ = ()

    def __del__(self) -> None:
        self.detach()


def socket_of(transport: asyncio.Transport) -> BorrowedSocket | None:
    """For sending past a transport in which nothing waits; None where it must see the bytes."""
    sock = transport.get_extra_info("socket")
    if sock is None or transport.get_extra_info("sslcontext") is not None:
        return None
    return BorrowedSocket(sock.family, sock.type, sock.proto, sock.fileno())


def is_loopback(host: str) -> bool:
    return host.startswith(("127.", "::ffff:127.")) or host == "::1"
